// Players and the turntable. Every drawing is made of the data block beside it; without this script the page shows stills.
(() => {
  const inks = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  };

  // Calls back when the colours change: the reader's choice, or the system's.
  function onTheme(redraw) {
    new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let place = 0; place < raw.length; place++) out[place] = raw.charCodeAt(place);
    return out;
  }

  function integers(dots) {
    const raw = bytes(dots.points);
    return dots.bits === 8 ? new Int8Array(raw.buffer) : new Int16Array(raw.buffer);
  }

  // A canvas as sharp as the screen; returns a context in CSS pixels and the side of the square.
  function board(canvas) {
    const side = canvas.clientWidth || 300;
    const sharp = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(side * sharp)) canvas.width = canvas.height = Math.round(side * sharp);
    const context = canvas.getContext("2d");
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, side, side);
    return [context, side];
  }

  function trace(context, points, closed) {
    context.beginPath();
    points.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (closed) context.closePath();
  }

  function stroke(context, points, colour, width, dash = []) {
    trace(context, points, false);
    context.setLineDash(dash);
    context.lineJoin = context.lineCap = "round";
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
    context.setLineDash([]);
  }

  function disc(context, x, y, radius, colour) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
  }

  function write(context, text, x, y, ink, size) {
    context.font = `${size}px system-ui, "Segoe UI", sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 3.5;
    context.lineJoin = "round";
    context.strokeStyle = ink("card");
    context.strokeText(text, x, y);
    context.fillStyle = ink("ink");
    context.fillText(text, x, y);
  }

  function star(context, x, y, radius, colour) {
    const corners = Array.from({ length: 10 }, (_, k) => {
      const length = k % 2 ? 0.42 * radius : radius;
      return [x + length * Math.cos((k * Math.PI) / 5 - Math.PI / 2), y + length * Math.sin((k * Math.PI) / 5 - Math.PI / 2)];
    });
    trace(context, corners, true);
    context.fillStyle = colour;
    context.fill();
  }

  // One panel of a player: regions, dots, centers, names, then the paths as far as they have come.
  function paint(canvas, panel, dots, classes, frame, frames) {
    const [context, side] = board(canvas);
    const ink = inks();
    const [cx, cy, half] = panel.view;
    const at = ([x, y]) => [(side / 2) * (1 + (x - cx) / half), (side / 2) * (1 - (y - cy) / half)];
    const kept = ([x, y]) => [Math.min(Math.max(x, 0), side), Math.min(Math.max(y, 0), side)];
    const size = side / 400;
    for (const region of panel.regions) {
      trace(context, region.points.map(at), true);
      context.globalAlpha = 0.1;
      context.fillStyle = ink(region.ink);
      context.fill();
      context.globalAlpha = 0.5;
      context.lineWidth = 0.7;
      context.strokeStyle = ink("soft");
      context.stroke();
    }
    const most = dots instanceof Int8Array ? 127 : 32767;
    const count = classes.length;
    const start = dots.length > 2 * count ? 2 * count * frame : 0;
    const radius = Math.max(panel.radius * size, 0.9);
    context.globalAlpha = panel.paths.length ? 0.5 : 0.75;
    const colours = Array.from({ length: 10 }, (_, k) => ink(`c${k}`));
    for (let dot = 0; dot < count; dot++) {
      const x = (side / 2) * (1 + dots[start + 2 * dot] / most);
      const y = (side / 2) * (1 - dots[start + 2 * dot + 1] / most);
      disc(context, x, y, radius, colours[classes[dot] % 10]);
    }
    context.globalAlpha = 1;
    const centers = panel.centers.length ? panel.centers[Math.min(frame, panel.centers.length - 1)] : [];
    for (const [x, y] of centers.map(at)) {
      const arm = Math.max(5 * size, 3.5);
      const arms = [[[x - arm, y - arm], [x + arm, y + arm]], [[x - arm, y + arm], [x + arm, y - arm]]];
      for (const each of arms) stroke(context, each, ink("card"), 4.5);
      for (const each of arms) stroke(context, each, ink("ink"), 2);
    }
    for (const path of panel.paths) {
      const points = path.points.slice(0, frame + 1).map(at).map(kept);
      stroke(context, points, ink("card"), 4.5);
      stroke(context, points, ink(path.ink), 2, path.dash ? [5, 4] : []);
      points.forEach(([x, y], step) => step % 10 === 0 && disc(context, x, y, 2.2, ink(path.ink)));
      const [x, y] = points[points.length - 1];
      disc(context, x, y, 5.5, ink("card"));
      disc(context, x, y, 4, ink(path.ink));
    }
    for (const [x, y, name] of panel.names) {
      const away = Math.hypot(x - cx, y - cy) || 1;
      const [left, top] = at([x + ((x - cx) / away) * 0.1 * half, y + ((y - cy) / away) * 0.1 * half]);
      write(context, name, Math.min(Math.max(left, 10), side - 10), Math.min(Math.max(top, 10), side - 10), ink, 14);
    }
    if (panel.paths.length) {
      const [x, y] = at(panel.paths[0].points[0]);
      star(context, x, y, 11, ink("card"));
      star(context, x, y, 8.5, ink("ink"));
    }
    canvas.setAttribute("aria-label", `${panel.title}, frame ${frame + 1} of ${frames}`);
  }

  function setUpPlayer(player) {
    const film = JSON.parse(player.querySelector("script").textContent);
    const classes = bytes(film.classes);
    const clouds = [];
    for (const panel of film.panels) clouds.push("as" in panel.dots ? clouds[panel.dots.as] : integers(panel.dots));
    const stages = player.querySelector(".stages");
    const canvases = film.panels.map((panel) => {
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const name = document.createElement("b");
      const canvas = document.createElement("canvas");
      name.textContent = panel.title;
      canvas.setAttribute("role", "img");
      caption.append(name);
      figure.append(caption, canvas);
      stages.append(figure);
      return canvas;
    });
    const [button, slider, label] = ["button.play", "input", "output"].map((each) => player.querySelector(each));
    const last = film.labels.length - 1;
    slider.max = String(last);
    let frame = last; // what a reader who never presses play should see
    let timer = 0;

    function show(next) {
      frame = Math.min(Math.max(next, 0), last);
      player.dataset.frame = String(frame);
      slider.value = String(frame);
      slider.setAttribute("aria-valuetext", film.labels[frame]);
      label.textContent = film.labels[frame];
      film.panels.forEach((panel, place) => paint(canvases[place], panel, clouds[place], classes, frame, last + 1));
    }

    function stop() {
      clearInterval(timer);
      timer = 0;
      button.textContent = "Play";
      button.setAttribute("aria-pressed", "false");
    }

    function toggle() {
      if (timer) return stop();
      if (frame === last) show(0);
      button.textContent = "Pause";
      button.setAttribute("aria-pressed", "true");
      timer = setInterval(() => (frame < last ? show(frame + 1) : stop()), 1000 / film.rate);
    }

    button.addEventListener("click", toggle);
    slider.addEventListener("input", () => {
      stop();
      show(Number(slider.value));
    });
    player.addEventListener("keydown", (event) => {
      if (event.target !== player) return; // the button and the slider have keys of their own
      const step = { ArrowRight: frame + 1, ArrowLeft: frame - 1, Home: 0, End: last }[event.key];
      if (event.key === " ") toggle();
      else if (step === undefined) return;
      else {
        stop();
        show(step);
      }
      event.preventDefault();
    });
    new ResizeObserver(() => show(frame)).observe(stages);
    onTheme(() => show(frame));
    show(frame);
  }

  // Whether a face of a tetrahedron, opposite its vertex ``other``, is turned towards the reader.
  function facing(points, face, other) {
    const [a, b, c] = face.map((place) => points[place]);
    const minus = (p, q) => p.map((value, axis) => value - q[axis]);
    const [u, v] = [minus(b, a), minus(c, a)];
    const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    const out = minus(a, points[other]).reduce((sum, value, axis) => sum + value * normal[axis], 0);
    return out > 0 ? normal[2] > 0 : normal[2] < 0;
  }

  function setUpTurntable(figure) {
    const solid = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector("canvas");
    figure.querySelector("b").textContent = solid.title;
    let [about, towards] = solid.turn;

    const turned = ([x, y, z]) => {
      const across = Math.cos(about) * x + Math.sin(about) * z;
      const deep = -Math.sin(about) * x + Math.cos(about) * z;
      const [c, s] = [Math.cos(towards), Math.sin(towards)];
      return [across, c * y - s * deep, s * y + c * deep];
    };

    function show() {
      const [context, side] = board(canvas);
      const ink = inks();
      const scale = 0.36 * side;
      const at = ([x, y]) => [side / 2 + x * scale, side / 2 - y * scale];
      const points = solid.points.map(turned);
      const round = Array.from({ length: 73 }, (_, k) => [Math.cos((k * Math.PI) / 36), Math.sin((k * Math.PI) / 36)]);
      stroke(context, round.map(at), ink("line"), 1.5);
      stroke(context, round.map(([x, z]) => at(turned([x, 0, z]))), ink("line"), 1, [5, 4]);
      const pairs = points.flatMap((_, i) => points.slice(i + 1).map((_, j) => [i, i + 1 + j]));
      context.globalAlpha = 0.07;
      for (let out = 0; out < points.length; out++) {
        trace(context, points.filter((_, place) => place !== out).map(at), true);
        context.fillStyle = ink("accent");
        context.fill();
      }
      context.globalAlpha = 1;
      for (const pair of pairs) {
        const [k, m] = points.map((_, place) => place).filter((place) => !pair.includes(place));
        const behind = !facing(points, [...pair, k], m) && !facing(points, [...pair, m], k);
        stroke(context, pair.map((end) => at(points[end])), ink("accent"), behind ? 1.4 : 2.2, behind ? [5, 4] : []);
      }
      for (const point of points) stroke(context, [[side / 2, side / 2], at(point)], ink("soft"), 1, [5, 4]);
      disc(context, side / 2, side / 2, 3, ink("soft"));
      const order = points.map((_, k) => k).sort((one, other) => points[one][2] - points[other][2]);
      for (const k of order) {
        const [x, y] = at(points[k]);
        disc(context, x, y, 6 + 2 * (1 + points[k][2]), ink(solid.inks[k]));
        const [dx, dy] = [points[k][0], -points[k][1]];
        const length = Math.max(Math.hypot(dx, dy), 0.2);
        write(context, solid.names[k], x + (22 * dx) / length, y + (22 * dy) / length, ink, 15);
      }
      figure.dataset.turn = `${about.toFixed(3)} ${towards.toFixed(3)}`;
    }

    function turn(across, down) {
      about += across;
      towards += down;
      show();
    }

    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      held = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      turn((event.clientX - held[0]) / 90, (event.clientY - held[1]) / 90);
      held = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (held = null));
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] }[event.key];
      if (!move) return;
      event.preventDefault();
      turn(...move);
    });
    new ResizeObserver(show).observe(canvas);
    onTheme(show);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-player]").forEach(setUpPlayer);
    document.querySelectorAll("[data-turntable]").forEach(setUpTurntable);
  });
})();
