/** The table of pages: where each is, and the key that goes to it after `g`. */

import type { ComponentChildren } from "preact";
import { BudgetPage } from "./pages/budget.tsx";
import { BudgetsPage } from "./pages/budgets.tsx";
import { ConflictPage } from "./pages/conflict.tsx";
import { ConflictsPage } from "./pages/conflicts.tsx";
import { FleetPage } from "./pages/fleet.tsx";
import { LedgerPage } from "./pages/ledger.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { OwnerPage } from "./pages/owner.tsx";
import { OwnersPage } from "./pages/owners.tsx";
import { QueuePage } from "./pages/queue.tsx";
import { ReportPage, ReportsPage } from "./pages/reports.tsx";
import { RoundsPage } from "./pages/rounds.tsx";
import { RunPage } from "./pages/run.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { TimelinePage } from "./pages/timeline.tsx";
import { Link } from "./router.tsx";
import { Empty, Title } from "./ui.tsx";

export interface Area {
  title: string;
  at: string[];
  key: string;
}

export const AREAS: Area[] = [
  { title: "Overview", at: [], key: "o" },
  { title: "Queue", at: ["queue"], key: "q" },
  { title: "Runs", at: ["runs"], key: "r" },
  { title: "Fleet", at: ["fleet"], key: "f" },
  { title: "Timeline", at: ["timeline"], key: "t" },
  { title: "Owners", at: ["owners"], key: "w" },
  { title: "Budgets", at: ["budgets"], key: "b" },
  { title: "Rounds", at: ["rounds"], key: "n" },
  { title: "Conflicts", at: ["conflicts"], key: "c" },
  { title: "Ledger", at: ["ledger"], key: "l" },
  { title: "Reports", at: ["reports"], key: "s" },
];

/** Returns the page at an address. */
export function pageAt([area, name]: string[]): ComponentChildren {
  switch (area) {
    case undefined:
      return <OverviewPage />;
    case "queue":
      return <QueuePage />;
    case "runs":
      return name === undefined ? <RunsPage /> : <RunPage name={name} key={name} />;
    case "reports":
      return name === undefined ? <ReportsPage /> : <ReportPage name={name} key={name} />;
    case "fleet":
      return <FleetPage />;
    case "timeline":
      return <TimelinePage />;
    case "owners":
      return name === undefined ? <OwnersPage /> : <OwnerPage name={name} key={name} />;
    case "budgets":
      return name === undefined ? <BudgetsPage /> : <BudgetPage name={name} key={name} />;
    case "rounds":
      return <RoundsPage />;
    case "conflicts":
      return name === undefined ? <ConflictsPage /> : <ConflictPage name={name} key={name} />;
    case "ledger":
      return <LedgerPage />;
    default:
      return (
        <>
          <Title title="Nothing here" />
          <Empty>
            There is no page at this address. <Link to={[]}>Go to the overview</Link>
          </Empty>
        </>
      );
  }
}
