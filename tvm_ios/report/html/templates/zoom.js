"use strict";
window.onerror = (message) => { document.documentElement.dataset.error = String(message); };
for (const frame of document.querySelectorAll(".zoom")) {
  const svg = frame.querySelector("svg");
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  let box = whole;
  const show = (next) => { box = next; svg.setAttribute("viewBox", box.join(" ")); };
  const zoom = (by, x = box[0] + box[2] / 2, y = box[1] + box[3] / 2) => {
    const width = Math.min(Math.max(box[2] * by, whole[2] / 60), whole[2] * 1.5);
    by = width / box[2];
    show([x - (x - box[0]) * by, y - (y - box[1]) * by, width, box[3] * by]);
  };
  const move = (x, y) => show([box[0] + x, box[1] + y, box[2], box[3]]);

  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== svg) return;  // else the page could not scroll
    event.preventDefault();
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    zoom(event.deltaY < 0 ? 0.8 : 1.25, at.x, at.y);
  }, { passive: false });
  svg.addEventListener("pointermove", (event) => {
    if (!(event.buttons & 1)) return;
    const scale = svg.getScreenCTM().a;
    move(-event.movementX / scale, -event.movementY / scale);
  });
  const keys = {
    "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), "0": () => show(whole),
    ArrowLeft: () => move(-box[2] / 10, 0), ArrowRight: () => move(box[2] / 10, 0),
    ArrowUp: () => move(0, -box[3] / 10), ArrowDown: () => move(0, box[3] / 10),
  };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  const tools = document.createElement("div");
  tools.className = "tools";
  for (const [text, key, label] of [["+", "+", "Zoom in"], ["−", "-", "Zoom out"], ["whole", "0", "Show everything"]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", keys[key]);
    tools.append(button);
  }
  const hint = document.createElement("span");
  hint.textContent = "Drag to move; click, then turn the wheel to zoom (or Ctrl and the wheel, or keys + − 0 and arrows)";
  tools.append(hint);
  svg.setAttribute("tabindex", "0");
  frame.classList.add("live");
  frame.before(tools);
}
document.documentElement.dataset.script = "ran";
