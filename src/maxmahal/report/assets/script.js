"use strict";
// The page reads and prints without any of this; it adds tabs, filters, tips, zoom, sorting and files of the figures.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const THEME = "maxmahal-theme";

  function remembered() {
    try {
      return localStorage.getItem(THEME) || "auto";
    } catch (_) {
      return "auto"; // storage is forbidden: the choice lasts as long as the page
    }
  }

  function remember(choice) {
    try {
      localStorage.setItem(THEME, choice);
    } catch (_) {
      return;
    }
  }

  function wear(choice) {
    if (choice === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
    }
  }

  wear(remembered()); // before the first paint

  function switchThemes() {
    wear(remembered());
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.addEventListener("click", () => {
        wear(button.dataset.themeChoice);
        remember(button.dataset.themeChoice);
      });
    }
  }

  function showTips() {
    const tip = document.getElementById("tip");
    let marked = null;
    let stepped = 0; // when a key last moved the mark: the scrolling that follows is its own

    function place(x, y) {
      const box = tip.getBoundingClientRect();
      const left = Math.min(Math.max(8, x + 14), innerWidth - box.width - 8);
      const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
      tip.style.left = `${left}px`;
      tip.style.top = `${Math.max(8, top)}px`;
    }

    function show(mark, x, y) {
      hide();
      marked = mark;
      mark.classList.add("on");
      tip.textContent = mark.dataset.tip;
      tip.hidden = false;
      place(x, y);
    }

    function hide() {
      if (marked) marked.classList.remove("on");
      marked = null;
      tip.hidden = true;
    }

    function over(event) {
      const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
      if (!mark) hide();
      else if (mark !== marked) show(mark, event.clientX, event.clientY);
      else place(event.clientX, event.clientY);
    }

    document.addEventListener("pointermove", over);
    document.addEventListener("pointerdown", over);
    document.addEventListener("scroll", () => performance.now() - stepped > 300 && hide(), { passive: true });
    document.addEventListener("focusout", hide);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      const board = event.target.closest ? event.target.closest(".marks") : null;
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!board || !step || event.target !== board) return;
      const marks = [...board.querySelectorAll("[data-tip]")];
      if (!marks.length) return;
      event.preventDefault();
      stepped = performance.now();
      const place = marks.indexOf(marked);
      const next = marks[place < 0 ? (step > 0 ? 0 : marks.length - 1) : (place + step + marks.length) % marks.length];
      next.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
      const box = next.getBoundingClientRect();
      show(next, box.left + box.width / 2, box.top + box.height / 2);
    });
  }

  function zoomSpaces() {
    for (const space of document.querySelectorAll(".zoomed")) {
      const panels = [...space.querySelectorAll("svg.space")];
      if (!panels.length) continue;
      const side = panels[0].viewBox.baseVal.width;
      let view = { x: 0, y: 0, size: side };

      function look(x, y, size) {
        size = Math.min(side, Math.max(side / 60, size));
        view = { x: Math.min(Math.max(x, 0), side - size), y: Math.min(Math.max(y, 0), side - size), size };
        for (const panel of panels) {
          panel.setAttribute("viewBox", `${view.x} ${view.y} ${view.size} ${view.size}`);
          panel.classList.toggle("near", view.size < side);
        }
      }

      // The place under (u, v), shares of the panel, stays where it is.
      function zoom(factor, u = 0.5, v = 0.5) {
        const size = Math.min(side, Math.max(side / 60, view.size * factor));
        look(view.x + u * (view.size - size), view.y + v * (view.size - size), size);
      }

      for (const button of space.querySelectorAll("[data-zoom]")) {
        button.addEventListener("click", () => {
          if (button.dataset.zoom === "reset") look(0, 0, side);
          else zoom(button.dataset.zoom === "in" ? 1 / 1.6 : 1.6);
        });
      }
      for (const panel of panels) listen(panel, zoom, (dx, dy) => look(view.x - dx * view.size, view.y - dy * view.size, view.size));
    }
  }

  function listen(panel, zoom, move) {
    const fingers = new Map();
    const within = (x, y) => {
      const box = panel.getBoundingClientRect();
      return [(x - box.left) / box.width, (y - box.top) / box.height];
    };
    const spread = () => {
      const [one, other] = [...fingers.values()];
      return Math.hypot(one.x - other.x, one.y - other.y);
    };
    panel.addEventListener(
      "wheel",
      (event) => {
        // Only once the panel is chosen, so that a page that scrolls past it keeps scrolling.
        if (!event.ctrlKey && document.activeElement !== panel) return;
        event.preventDefault();
        zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), ...within(event.clientX, event.clientY));
      },
      { passive: false },
    );
    panel.addEventListener("pointerdown", (event) => fingers.set(event.pointerId, { x: event.clientX, y: event.clientY }));
    panel.addEventListener("pointermove", (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return;
      const before = fingers.size === 2 ? spread() : 0;
      const box = panel.getBoundingClientRect();
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (fingers.size === 2) zoom(before / Math.max(spread(), 1), ...within(event.clientX, event.clientY));
      else move((event.clientX - last.x) / box.width, (event.clientY - last.y) / box.height);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
      panel.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
    panel.addEventListener("keydown", (event) => {
      const factor = { "+": 1 / 1.6, "=": 1 / 1.6, "-": 1.6 }[event.key];
      if (factor) zoom(factor);
    });
  }

  function pickStages() {
    for (const picker of document.querySelectorAll(".picker")) {
      const space = picker.closest(".zoomed");
      picker.addEventListener("input", () => {
        for (const figure of space.querySelectorAll("[data-picked]")) figure.hidden = figure.dataset.picked !== picker.value;
      });
      picker.dispatchEvent(new Event("input"));
    }
  }

  function sortTables() {
    for (const table of document.querySelectorAll("table.sortable")) {
      const body = table.tBodies[0];
      [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const rows = [...body.rows].sort((one, other) => compare(one.cells[column], other.cells[column]));
          body.append(...(down ? rows.reverse() : rows));
        });
      });
    }
  }

  function compare(one, other) {
    const [a, b] = [one.dataset.value, other.dataset.value];
    if (a !== undefined && b !== undefined) return Number(a) - Number(b);
    if (a !== undefined || b !== undefined) return a === undefined ? 1 : -1;
    return one.textContent.localeCompare(other.textContent, "en");
  }

  // The last sections of a panel are folded until the page is at most six screens tall; a link to one opens it.
  function foldSections(panel) {
    const folds = [...panel.querySelectorAll(".fold")].reverse();
    const tall = () => root.scrollHeight > 6 * Math.max(innerHeight, 800);
    if (!panel.dataset.folded) for (const fold of folds) fold.open = !tall();
    panel.dataset.folded = "yes";
  }

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target && target.querySelector(":scope > .fold");
    if (fold) fold.open = true;
    return target;
  }

  // One panel at a time; the address names it, so a link to any section opens its panel.
  function switchTabs() {
    const bar = document.querySelector(".tabs");
    addEventListener("beforeprint", () => document.querySelectorAll(".fold").forEach((fold) => (fold.open = true)));
    if (!bar) {
      document.querySelectorAll(".panel").forEach(foldSections);
      addEventListener("hashchange", openTarget);
      openTarget();
      return;
    }
    const tabs = [...bar.children];
    const panels = tabs.map((tab) => document.getElementById(tab.hash.slice(1)));
    bar.setAttribute("role", "tablist");
    tabs.forEach((tab, place) => {
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panels[place].id);
      panels[place].setAttribute("role", "tabpanel");
      panels[place].setAttribute("aria-labelledby", tab.id);
    });

    function open(place) {
      tabs.forEach((tab, other) => {
        tab.setAttribute("aria-selected", String(other === place));
        tab.tabIndex = other === place ? 0 : -1;
        panels[other].hidden = other !== place;
      });
      foldSections(panels[place]);
    }

    function follow() {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      open(Math.max(panels.findIndex((panel) => target && panel.contains(target)), 0));
      if (openTarget() && !panels.includes(target)) target.scrollIntoView();
    }

    bar.addEventListener("click", (event) => {
      const place = tabs.indexOf(event.target.closest("a"));
      if (place < 0) return;
      event.preventDefault(); // the bar stays where it is
      history.replaceState(null, "", tabs[place].hash);
      open(place);
      if (bar.getBoundingClientRect().top <= 0) panels[place].scrollIntoView({ behavior: "instant" });
    });
    bar.addEventListener("keydown", (event) => {
      const here = tabs.indexOf(document.activeElement);
      const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const tab = tabs[(next + tabs.length) % tabs.length];
      tab.click();
      tab.focus({ preventScroll: true });
    });
    addEventListener("hashchange", follow);
    follow();
  }

  function make(tag, text = "", head = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    if (head) made.dataset.head = head;
    return made;
  }

  // `show` gets the number of the first of `size` things; the returned function starts again with so many things.
  function turnPages(pager, size, show) {
    const [back, on] = pager.querySelectorAll("button");
    let first = 0;
    let total = 0;

    function turn(place) {
      first = Math.max(0, Math.min(place, total - 1));
      first -= first % size;
      back.disabled = first === 0;
      on.disabled = first + size >= total;
      const last = Math.min(first + size, total);
      pager.querySelector("output").value = total ? `${size > 1 ? `${first + 1}–${last}` : last} of ${total.toLocaleString("en")}` : "none";
      show(first);
    }

    for (const button of [back, on]) button.addEventListener("click", () => turn(first + size * Number(button.dataset.page)));
    return (count, place = 0) => {
      total = count;
      turn(place);
    };
  }

  const className = (model, label) => model.class_names[label] ?? `class ${label}`;

  function outcome(model, row) {
    const first = model.first_broken_by[row];
    return first < 0 ? "still correct" : first ? `broken by ${model.attacks[first].title}` : "wrong without an attack";
  }

  function readRecords() {
    const link = document.getElementById("records");
    if (!link) return [];
    const bytes = Uint8Array.from(atob(link.href.split(",")[1]), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes)).models;
  }

  function matches(model, row, wanted) {
    if (wanted.label && model.label[row] !== Number(wanted.label)) return false;
    const letter = wanted.attack ? model.attacks[wanted.attack].outcomes[row] : model.first_broken_by[row] < 0 ? "0" : "1";
    if (letter === "-") return false;
    const kind = model.first_broken_by[row] === 0 ? "wrong" : letter === "1" ? "broken" : "robust";
    return !wanted.outcome || wanted.outcome === kind;
  }

  function filterSamples(models, compare) {
    for (const box of document.querySelectorAll(".explorer")) {
      const model = models[box.dataset.model];
      const form = box.querySelector("form");
      const body = box.querySelector(".rows tbody");
      const figures = [...box.querySelectorAll(".exhibit")];
      const pagers = [...box.querySelectorAll(".pager")];
      let rows = [];
      let shown = [];
      const turnRows = turnPages(pagers.pop(), 8, (first) => {
        body.replaceChildren(...rows.slice(first, first + 8).map((row) => sampleRow(model, row, form.elements.attack.value, compare)));
      });
      const turnFigures =
        pagers.length &&
        turnPages(pagers[0], 6, (first) => {
          const now = new Set(shown.slice(first, first + 6));
          for (const figure of figures) figure.hidden = !now.has(figure);
        });

      function filter() {
        const wanted = Object.fromEntries(new FormData(form));
        rows = [...model.sample.keys()].filter((row) => matches(model, row, wanted));
        const samples = new Set(rows.map((row) => String(model.sample[row])));
        shown = figures.filter((one) => samples.has(one.dataset.sample) && (!wanted.attack || one.dataset.attack === wanted.attack));
        form.querySelector("output").value = `${rows.length.toLocaleString("en")} of ${model.sample.length.toLocaleString("en")} samples`;
        turnRows(rows.length);
        if (turnFigures) turnFigures(shown.length);
      }

      form.addEventListener("input", filter);
      filter();
    }
  }

  function sampleRow(model, row, attack, compare) {
    const line = make("tr");
    const name = make("th");
    name.scope = "row";
    const sample = make(compare ? "button" : "span", `Sample ${model.sample[row]}`);
    if (compare) {
      sample.className = "link";
      sample.addEventListener("click", () => compare(model, row));
    }
    name.append(sample);
    const told = attack
      ? { 0: "still correct", 1: model.first_broken_by[row] ? "broken" : "wrong without an attack" }[model.attacks[attack].outcomes[row]]
      : outcome(model, row);
    const worst = attack && Number(attack) !== model.first_broken_by[row] ? "–" : className(model, model.prediction[row]);
    line.append(
      name,
      make("td", className(model, model.label[row]), "true class"),
      make("td", told, "outcome"),
      make("td", worst, "prediction under attack"),
    );
    return line;
  }

  // Returns a function that shows one row of one model, and opens the panel.
  function compareModels(models) {
    const box = document.querySelector(".across");
    if (!box) return null;
    const form = box.querySelector("form");
    const field = form.elements;
    const places = models.map((model) => new Map((model.sample || []).map((sample, row) => [sample, row])));
    let samples = [];
    const among = () => [...models.keys()].filter((one) => models[one].data === field.data.value && models[one].sample);

    function show(first) {
      const sample = samples[first];
      field.sample.value = sample ?? "";
      const lines = sample === undefined ? [] : among().map((one) => compared(models[one], one, places[one].get(sample)));
      box.querySelector("tbody").replaceChildren(...lines);
      const some = among().find((one) => places[one].has(sample));
      const truth = some === undefined ? "" : `, true class ${className(models[some], models[some].label[places[some].get(sample)])}`;
      box.querySelector("caption").textContent = sample === undefined ? "No such sample" : `Sample ${sample} of ${field.data.value}${truth}`;
    }

    const turn = turnPages(box.querySelector(".pager"), 1, show);

    function choose(sample) {
      const every = [...new Set(among().flatMap((one) => models[one].sample))].sort((one, other) => one - other);
      samples = every.filter((each) => {
        const robust = among().filter((one) => places[one].has(each)).map((one) => models[one].first_broken_by[places[one].get(each)] < 0);
        const kind = robust.every(Boolean) ? "every" : robust.some(Boolean) ? "differ" : "none";
        return !field.kind.value || field.kind.value === kind;
      });
      turn(samples.length, Math.max(samples.indexOf(sample), 0));
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", (event) => {
      const sample = Number(field.sample.value);
      if (event.target === field.sample && !samples.includes(sample)) field.kind.value = "";
      choose(sample);
    });
    choose(undefined);
    return (model, row) => {
      field.data.value = model.data;
      field.kind.value = "";
      choose(model.sample[row]);
      location.hash = box.closest("section").id;
    };
  }

  function compared(model, place, row) {
    const line = make("tr");
    const name = make("th", model.model);
    name.scope = "row";
    line.append(name);
    if (row === undefined) {
      line.append(make("td", "not evaluated on it", "outcome"));
      line.lastChild.colSpan = 4;
      return line;
    }
    const pictures = make("td", "", "clean, change, attacked");
    const chosen = `.explorer[data-model="${place}"] [data-sample="${model.sample[row]}"]`;
    const figure = document.querySelector(`${chosen}[data-attack="${model.first_broken_by[row]}"]`) || document.querySelector(chosen);
    if (figure) {
      for (const image of figure.querySelectorAll("img")) pictures.append(image.cloneNode());
    } else pictures.append("not recorded");
    line.append(
      make("td", className(model, model.clean_prediction[row]), "clean prediction"),
      make("td", outcome(model, row), "outcome"),
      make("td", className(model, model.prediction[row]), "prediction under attack"),
      pictures,
    );
    return line;
  }

  // A file of its own has no style sheet, so every shape gets the look that it has here.
  const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-size", "font-weight", "text-anchor", "paint-order"];

  function dressed(drawing, width, height) {
    const copy = drawing.cloneNode(true);
    const originals = [...drawing.querySelectorAll("*")];
    [...copy.querySelectorAll("*")].forEach((one, place) => {
      const look = getComputedStyle(originals[place]);
      for (const name of LOOKS) one.setAttribute(name, look.getPropertyValue(name));
      for (const name of ["class", "data-tip", "style"]) one.removeAttribute(name);
    });
    for (const name of ["class", "tabindex", "style"]) copy.removeAttribute(name);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("overflow", "visible");
    return copy;
  }

  // The drawings below each other, each under its title, with the legend that belongs to them.
  function whole(drawings) {
    const space = drawings[0].namespaceURI;
    const colour = (name) => getComputedStyle(root).getPropertyValue(name);
    const page = document.createElementNS(space, "svg");
    const width = 640;
    let top = 12;

    function write(text, x, weight) {
      const made = document.createElementNS(space, "text");
      const look = { x, y: top + 14, fill: colour("--ink"), "font-size": 14, "font-weight": weight, "font-family": "sans-serif" };
      for (const [name, value] of Object.entries(look)) made.setAttribute(name, value);
      made.textContent = text;
      page.append(made);
    }

    function box(x, y, w, h, fill) {
      const made = document.createElementNS(space, "rect");
      for (const [name, value] of Object.entries({ x, y, width: w, height: h, fill })) made.setAttribute(name, value);
      return made;
    }

    for (const drawing of drawings) {
      const view = drawing.viewBox.baseVal;
      const flat = !view || !view.width || drawing.getAttribute("preserveAspectRatio") === "none";
      const height = flat ? 30 : (width * view.height) / view.width;
      const copy = dressed(drawing, width, height);
      write(drawing.getAttribute("aria-label"), 16, 600);
      copy.setAttribute("x", 16);
      copy.setAttribute("y", top + 24);
      copy.setAttribute("font-family", "sans-serif");
      page.append(copy);
      top += height + 40;
    }
    const owner = drawings[0].closest("[data-legend], .zoomed");
    for (const entry of owner ? owner.querySelectorAll(".legend li") : []) {
      const mark = entry.querySelector(".key, rect");
      const look = getComputedStyle(mark);
      page.append(box(16, top + 3, 12, 12, mark.tagName === "rect" ? look.fill : look.backgroundColor));
      write(entry.textContent.trim(), 36, 400);
      top += 22;
    }
    const size = [width + 32, Math.ceil(top + 12)];
    page.prepend(box(0, 0, ...size, colour("--card")));
    page.setAttribute("viewBox", `0 0 ${size.join(" ")}`);
    page.setAttribute("width", size[0]);
    page.setAttribute("height", size[1]);
    return [new XMLSerializer().serializeToString(page), size];
  }

  function download(name, blob) {
    const link = make("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  function saveFigure(drawings, format) {
    const name = drawings[0].getAttribute("aria-label").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60).replace(/^-|-$/g, "") || "figure";
    const [text, [width, height]] = whole(drawings);
    if (format === "svg") return download(`${name}.svg`, new Blob([text], { type: "image/svg+xml" }));
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = make("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(`${name}.png`, blob));
    });
    image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  }

  function offerFigures() {
    const figures = [...document.querySelectorAll("svg.chart, svg.space")].map((drawing) => [drawing, [drawing]]);
    for (const group of document.querySelectorAll("[data-figure]")) figures.push([group, [...group.querySelectorAll("svg[role=img]")]]);
    for (const [after, drawings] of figures.filter(([, some]) => some.length)) {
      const tools = make("div");
      tools.className = "save";
      for (const format of ["svg", "png"]) {
        const button = make("button", format.toUpperCase());
        button.type = "button";
        const what = after.dataset.figure || drawings[0].getAttribute("aria-label");
        button.setAttribute("aria-label", `Download as ${format.toUpperCase()}: ${what}`);
        button.addEventListener("click", () => saveFigure(drawings, format));
        tools.append(button);
      }
      after.after(tools);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const models = readRecords();
    switchThemes();
    showTips();
    zoomSpaces();
    pickStages();
    sortTables();
    filterSamples(models, compareModels(models));
    offerFigures();
    switchTabs();
  });
})();
