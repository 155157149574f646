/** The figures of a public leaderboard of LLM gateways, for comparison with its entries. */
import type { Results } from '../benchmark.ts';
import type { Measured } from '../sections/closed-loop.ts';
import { measuredBy } from '../targets.ts';
import { table, whole } from './table.ts';

/** Servers other than `direct`, in the order in which they appear. */
export function neutralMeasures({ cells, sustained, memory }: Results): string {
  const names = [...new Set(cells.flatMap(({ servers }) => Object.keys(servers)))].filter((name) => name !== 'direct');
  const row = (what: string, figure: (name: string) => string | undefined) => [
    what,
    ...names.map((name) => figure(name) ?? '–'),
  ];
  const added = (work: string, connections: number, of: (measured: Measured) => number | null) => (name: string) => {
    const [own, direct] = [measuredBy(cells, work, connections, name), measuredBy(cells, work, connections, 'direct')];
    const [one, other] = [own && of(own), direct && of(direct)];
    return one == null || other == null ? undefined : ((one - other) * 1000).toFixed(0);
  };
  const most = (name: string) => {
    const rates = cells.flatMap(({ work, servers }) => (work === 'chat-json' ? (servers[name]?.perSecond ?? []) : []));
    return rates.length === 0 ? undefined : whole(Math.max(...rates));
  };
  const rate = (work: string) => (name: string) => {
    const found = measuredBy(cells, work, 50, name);
    return found && whole(found.perSecond);
  };
  const megabytes = (of: 'idleMb' | 'peakMb') => (name: string) => {
    const processes = memory.filter(({ server }) => server === name);
    return processes.length === 0 ? undefined : processes.map((each) => whole(each[of])).join(' + ');
  };
  return table(
    ['Measure', ...names],
    [
      row(
        'added latency at 1 connection, p99, µs',
        added('chat-json', 1, ({ p99 }) => p99),
      ),
      row('most requests/s, an upstream that answers at once', most),
      row('sustained requests/s, an upstream of 20 ms', (name) => {
        const found = sustained.find(({ server }) => server === name);
        return found && whole(found.perSecond);
      }),
      row(
        'added time to the first token, 10 paced streams, p99, µs',
        added('chat-paced', 10, ({ firstP99 }) => firstP99),
      ),
      row(
        'added delay per token, 10 paced streams, p99, µs',
        added('chat-paced', 10, ({ wordP99 }) => wordP99),
      ),
      row(
        'added time to the first token, 512 streams, p99, µs',
        added('chat-paced', 512, ({ firstP99 }) => firstP99),
      ),
      row(
        'added delay per token, 512 streams, p99, µs',
        added('chat-paced', 512, ({ wordP99 }) => wordP99),
      ),
      row('responses → chat, JSON, 50 connections, requests/s', rate('responses-json')),
      row('responses → chat, SSE, 50 connections, streams/s', rate('responses-sse')),
      row('messages → chat, JSON, 50 connections, requests/s', rate('messages-json')),
      row('messages → chat, SSE, 50 connections, streams/s', rate('messages-sse')),
      row('idle memory of its processes, MB', megabytes('idleMb')),
      row('peak memory of its processes, MB', megabytes('peakMb')),
    ],
  );
}
