// Elements are made here and nowhere else. Strings become text nodes, so no text can become markup.
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

// Of several things that arrow keys move between, Tab reaches one.
export function rove(nodes, chosen) {
  nodes.forEach((node, place) => node.setAttribute("tabindex", place === chosen ? 0 : -1));
}

// Enter and the space bar press what is no button of the browser's own.
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

export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1%";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;
}
