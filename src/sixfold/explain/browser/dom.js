// The only place where elements are created. Strings become text nodes, so text cannot become markup.
const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, each]) => node.style.setProperty(key, each));
    else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
    }
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

// Roving tabindex: of a group that the arrow keys move in, Tab reaches one element.
export function rove(nodes, chosen) {
  nodes.forEach((node, place) => node.setAttribute("tabindex", place === chosen ? 0 : -1));
}

// Lets Enter and the space bar activate an element that is not a <button>.
export function pressed(act) {
  return (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
}

export const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }; // row, column

export function within(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

export function percent(fraction) {
  if (fraction > 0 && fraction < 0.001) return "<0.1%";
  return `${(100 * fraction).toFixed(fraction < 0.0995 ? 1 : 0)}%`;
}
