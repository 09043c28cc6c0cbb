// The theme switch and the tabs.
import { element } from "./dom.js";
import { button } from "./controls.js";

const NEXT = { auto: "dark", dark: "light", light: "auto" };
const ICONS = { auto: "◐", dark: "☾", light: "☀" };
export const THEMES = Object.keys(NEXT);

export function themeButton(state) {
  const change = () => state.set({ theme: NEXT[state.values.theme] });
  const node = button("", "", change, { class: "plain" });
  const update = () => {
    const { theme } = state.values;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme === "auto" ? system : theme;
    node.textContent = ICONS[theme];
    node.title = `Theme: ${theme}`;
    node.setAttribute("aria-label", `Theme: ${theme}. Change to ${NEXT[theme]}`);
  };
  update();
  return { button: node, update };
}

// Tabs; the arrow keys move between them.
export function tabs(label, names, state) {
  const views = Object.keys(names);
  const move = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const place = views.indexOf(state.values.view) + by + views.length;
    state.set({ view: views[place % views.length] });
    document.getElementById(`tab-${state.values.view}`).focus();
  };
  const buttons = views.map((view) => element("button", {
    type: "button", role: "tab", id: `tab-${view}`, "aria-controls": "view", "data-view": view,
    onclick: () => state.set({ view }), onkeydown: move,
  }, names[view]));
  const update = () => buttons.forEach((each) => {
    const isChosen = each.dataset.view === state.values.view;
    each.setAttribute("aria-selected", isChosen);
    each.setAttribute("tabindex", isChosen ? 0 : -1);
  });
  update();
  return { list: element("div", { role: "tablist", "aria-label": label }, buttons), update };
}
