"use strict";
// The page reads and prints without any of this; it adds the theme switch, tips, zoom and sorting.
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
    for (const choice of document.querySelectorAll(".choice")) {
      const buttons = [...choice.querySelectorAll("[data-pick]")];
      for (const button of buttons) {
        button.addEventListener("click", () => {
          choice.classList.add("chosen");
          for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
          for (const figure of choice.querySelectorAll("[data-picked]")) {
            figure.classList.toggle("picked", figure.dataset.picked === button.dataset.pick);
          }
        });
      }
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

  function followReader() {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const watcher = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          for (const [key, link] of links) link.classList.toggle("here", key === entry.target.id);
        }
      },
      { rootMargin: "-15% 0px -75% 0px" },
    );
    for (const section of document.querySelectorAll("main > section")) watcher.observe(section);
  }

  document.addEventListener("DOMContentLoaded", () => {
    switchThemes();
    showTips();
    zoomSpaces();
    pickStages();
    sortTables();
    followReader();
  });
})();
