/** `npm run bench`: everything, side by side, into RESULTS.md. See README.md. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startLoadProcess } from './load/load-process.ts';
import { parseOptions } from './options.ts';
import { columnsOf, rowsOf } from './report/cell-tables.ts';
import { plainTable } from './report/table.ts';
import { measureAdminState } from './sections/admin-state.ts';
import { type Cell, measureCell } from './sections/closed-loop.ts';
import { benchLog } from './sections/log.ts';
import { measureStartUp } from './sections/start-up.ts';
import { keepAwake } from './servers/awake.ts';
import { cores, pinSelf } from './servers/cores.ts';
import type { Server } from './servers/launch.ts';
import { startSubjects } from './servers/start-subjects.ts';
import { startUpstreams } from './upstream/start-upstreams.ts';
import { WORKS } from './work.ts';

pinSelf();
const options = parseOptions(process.argv.slice(2));
const folder = fileURLToPath(new URL('.', import.meta.url));
const workDir = join(folder, '.work');
mkdirSync(workDir, { recursive: true });

const running: Server[] = [];
const awake = options.awake ? keepAwake() : undefined;
// The log comes first and alone, while nothing else wants the processor.
if (options.wants('log')) console.log(JSON.stringify(await benchLog({ dir: workDir }), null, 2));
const upstreams = await startUpstreams();
const upstream = `${upstreams.servers.instant.origin}/json/v1`;
const load = startLoadProcess(cores.rest);
const cells: Cell[] = [];
try {
  if (options.wants('start-up')) {
    console.log(JSON.stringify(await measureStartUp(workDir, upstream, 1_000_000), null, 2));
  }
  if (options.wants('admin-state')) {
    console.log(JSON.stringify(await measureAdminState(workDir, upstream), null, 2));
  }
  const works = WORKS.filter(({ name }) => options.wants(name));
  const subjects = await startSubjects({
    kinds: works.length === 0 ? [] : options.servers,
    trees: options.trees,
    workDir,
    upstreams,
    started: (server) => running.push(server),
  });
  for (const work of works) {
    for (const connections of options.connections ?? work.connections) {
      const cell = await measureCell({ load, awake }, work, connections, subjects, options);
      cells.push(cell);
      console.log(`\n${cell.describe}, ${connections} connections`);
      console.log(plainTable(columnsOf(cell), rowsOf(cell)));
      for (const [what, count] of Object.entries(cell.failures)) console.log(`FAILED ${what}: ${count} times`);
      const { stolen, others } = cell.disturbance;
      console.log(
        `taken from the server's processor in the worst round: by the hypervisor ${(stolen * 100).toFixed(0)} %, by other processes ${(others * 100).toFixed(0)} %`,
      );
      for (const name of cell.restless) console.log(`${name} did not come to rest before each round`);
    }
  }
  if (options.json !== undefined) writeFileSync(options.json, JSON.stringify(cells, null, 2));
} finally {
  load.stop();
  awake?.stop();
  await Promise.all(running.map((server) => server.stop()));
  await upstreams.stop();
}
