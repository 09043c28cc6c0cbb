// Small elements that several views share.
import { element, percent } from "./dom.js";

export function button(text, label, act, others = {}) {
  return element("button", { type: "button", "aria-label": label, title: label, onclick: act, ...others }, text);
}

export function muted(text, others = "") {
  return element("p", { class: `soft ${others}` }, text);
}

// The number of a row or column. Hidden from screen readers, whose cell labels include it.
export function axis(text) {
  return element("span", { class: "axis", "aria-hidden": "true" }, text);
}

// A group of buttons of which one is pressed; `options` are [value, text, title].
export function choices(label, options, isChosen, choose) {
  const buttons = options.map(([value, text, title]) =>
    element("button", { type: "button", "data-value": value, title, onclick: () => choose(value) }, text));
  const group = element("div", { class: "choices", role: "group", "aria-label": label }, buttons);
  const update = () =>
    buttons.forEach((each) => each.setAttribute("aria-pressed", isChosen(each.dataset.value)));
  update();
  return { group, buttons, update };
}

export function bar(fraction, colour) {
  return element("span", { class: `bar ${colour}`, style: { "--fraction": fraction } });
}

// A bar chart of [[name, fraction, colour], …]; one row may be marked as the current one.
export function bars(rows, current = -1) {
  return element("ol", { class: "bars" }, rows.map(([name, fraction, colour], place) =>
    element("li", { "aria-current": place === current },
      element("bdi", {}, name), element("span", { class: "number" }, percent(fraction)), bar(fraction, colour))));
}
