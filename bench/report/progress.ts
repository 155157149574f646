/** Each result on the terminal as it comes. */
import type { Progress } from '../benchmark.ts';
import { cellColumns, cellRows } from './cell-tables.ts';
import { toolRows, turnRows } from './other-parts.ts';
import { plainTable, whole } from './table.ts';

export const printProgress: Progress = {
  cell(cell) {
    console.log(`\n${cell.describe}, ${cell.connections} ${cell.connections === 1 ? 'connection' : 'connections'}`);
    console.log(plainTable(cellColumns(cell), cellRows(cell)));
    for (const [what, count] of Object.entries(cell.failures)) console.log(`FAILED ${what}: ${count} times`);
    const { stolen, others } = cell.disturbance;
    const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
    if (stolen + others >= 0.05) {
      console.log(
        `in the worst round the hypervisor took ${percent(stolen)} of the servers' processor, other processes ${percent(others)}`,
      );
    }
    for (const name of cell.restless) console.log(`${name} did not come to rest after each round`);
  },
  sustained({ server, perSecond, p50, p99 }) {
    console.log(
      `\nsustained with an upstream of 20 ms: ${server} ${whole(perSecond)} requests/s, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
    );
  },
  inside({ server, describe, heapKb, externalKb, garbageShare, longestPauseMs, threads }) {
    console.log(
      `\ninside ${server}, ${describe}, for an exchange: ${heapKb.toFixed(1)} KB on the heap, ${externalKb.toFixed(1)} KB outside; garbage collection ${(garbageShare * 100).toFixed(1)} % of the processor time, longest pause ${longestPauseMs.toFixed(1)} ms`,
    );
    console.log(threads.map(({ name, micros }) => `${name} ${micros.toFixed(0)} µs`).join(', '));
  },
  turns(turns) {
    console.log(`\nchains of ${turns.turnsInChain} turns, ${turns.chains} at a time`);
    console.log(plainTable(...turnRows(turns)));
  },
  tools(tools) {
    console.log(`\ncalls of a tool in ${tools.sessions} sessions at a time`);
    console.log(plainTable(...toolRows(tools)));
  },
};
