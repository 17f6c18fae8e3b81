// How the site's search ranks pages: Sphinx's own weights, and pages that say what to do first.
// A page with decisions, rules or a list of everything has most words of any question.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^docs\/(adr|design)\/|^CHANGELOG/.test(page)) return score - 12;
    if (page === "docs/README") return score - 2;
    return /^docs\/reference\//.test(page) ? score - 1 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
