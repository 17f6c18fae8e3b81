// Prints the page that the search of a built site lists first for each question, one a line.
//
// node site_search.cjs SITE QUESTION... runs the site's own scripts, with nothing of a browser.

const fs = require("node:fs");
const vm = require("node:vm");

const [site, ...questions] = process.argv.slice(2);
const nothing = () => {};
const page = {
  addEventListener: nothing,
  getElementById: () => null,
  querySelector: () => null,
  querySelectorAll: () => [],
};
const world = vm.createContext({
  document: { ...page, documentElement: { dataset: { content_root: "./" } } },
  window: { location: { search: "" }, addEventListener: nothing },
  SPHINX_HIGHLIGHT_ENABLED: false,
  localStorage: { setItem: nothing },
  DOCUMENTATION_OPTIONS: { SHOW_SEARCH_SUMMARY: false },
  _ready: nothing,
  _: (text) => text,
});
function load(path) {
  const text = fs.readFileSync(`${site}/${path}`, "utf8").replace(/^const /gm, "var ");
  vm.runInContext(text, world);
}
load("_static/language_data.js");
world.Stemmer = world.window.Stemmer;
load("_static/searchtools.js");
load("searchindex.js");
for (const question of questions) {
  // The last result is shown first.
  const found = world.Search._performSearch(...world.Search._parseQuery(question));
  console.log(found.at(-1)?.[0] ?? "");
}
