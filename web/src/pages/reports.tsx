/** Reports of simulations: what was written into the folder of the service, listed and shown. */

import { ask } from "../api.ts";
import type { ReportListed } from "../api_types.ts";
import { number } from "../format.ts";
import { useLive } from "../live.ts";
import { ReportText } from "../report_text.tsx";
import { Link } from "../router.tsx";
import { Await, type Column, Empty, Title, Table, When } from "../ui.tsx";
import { oversees, useViewer } from "../viewer.ts";

const COLUMNS: Column<ReportListed>[] = [
  {
    title: "Report",
    value: (each) => each.name,
    show: (each) => (
      <Link to={["reports", each.name]} class="name">
        {each.name}
      </Link>
    ),
  },
  { title: "Written", value: (each) => each.written, show: (each) => <When at={each.written} /> },
  {
    title: "Bytes",
    right: true,
    value: (each) => each.sizeBytes,
    show: (each) => number(each.sizeBytes),
  },
];
const SUB = "What simulations came to: policies compared, waits, shares and work by domain.";

export function ReportsPage() {
  const who = useViewer();
  return (
    <>
      <Title title="Reports" sub={SUB} />
      {oversees(who) ? <Listed /> : <Empty>Reports are for admins and auditors.</Empty>}
    </>
  );
}

function Listed() {
  const found = useLive("reports", (signal) => ask("/reports", {}, {}, signal), () => false);
  return (
    <Await of={found}>
      {(listing) =>
        listing.isKept ? (
          <Table
            name="reports"
            columns={COLUMNS}
            rows={listing.items}
            keyOf={(each) => each.name}
            empty={
              <Empty command="quorate simulate scenario.yaml --report FOLDER/name.html">
                The folder has no reports yet.
              </Empty>
            }
          />
        ) : (
          <Empty command="quorate serve --reports-folder FOLDER">
            The service has no folder of reports.
          </Empty>
        )
      }
    </Await>
  );
}

export function ReportPage({ name }: { name: string }) {
  const found = useLive(
    `report ${name}`,
    (signal) => ask("/reports/{report}", { report: name }, {}, signal),
    () => false,
  );
  return (
    <>
      <Title title={name} sub={found.value && <>written <When at={found.value.written} /></>} />
      <Await of={found}>{(report) => <ReportText html={report.html} />}</Await>
    </>
  );
}
