/** In the end every gateway has the same log, and it is what the appends on the engine result in. */
import type { CrashEngine } from '../engines.ts';
import type { Violation } from '../evidence.ts';
import { readAgain } from '../read-log.ts';
import type { RecordedLog } from '../recorded-log.ts';
import { replayEngine } from '../replay-engine.ts';

export interface ComparedLogs {
  readonly violations: readonly Violation[];
  /** SHA-256 of all events that every gateway has. */
  readonly digest: string | undefined;
  readonly events: number;
  readonly replayed: number;
  readonly ignored: number;
}

const REPLAYED_WITHIN_MS = 120_000;

/**
 * To be called when no gateway runs. The last ones to stop have read the stops of the others.
 * @param read each event as it was read after the rounds, as `id stream revision`
 */
export async function compareLogs(
  members: readonly { readonly dataDir: string }[],
  engine: CrashEngine | undefined,
  read: readonly string[],
): Promise<ComparedLogs> {
  const logs: RecordedLog[] = [];
  for (const { dataDir } of members) logs.push(await readAgain(dataDir));
  const violations = logs.flatMap((log) => log.violations);
  const complain = (check: string, what: string) => violations.push({ check, what });
  const shortest = Math.min(...logs.map(({ events }) => events));
  const digests: string[] = [];
  for (const { dataDir } of members) digests.push((await readAgain(dataDir, shortest)).digest());
  if (new Set(digests).size > 1) complain('replicas', `the first ${shortest} events differ: ${digests.join(', ')}`);
  const { places } = logs.reduce((one, other) => (other.events > one.events ? other : one));
  const differs = read.findIndex((place, index) => place !== places[index]);
  if (differs !== -1) complain('history', `event ${differs} was read as ${read[differs]} and is ${places[differs]}`);
  const compared = { violations, digest: digests[0], events: places.length };
  if (engine === undefined) return { ...compared, replayed: 0, ignored: 0 };
  const { events, ignored } = await replayEngine(engine.connect(), places.length, REPLAYED_WITHIN_MS);
  const at = places.findIndex((place, index) => place !== events[index]);
  if (at !== -1) complain('replay', `event ${at} is ${places[at]}, on the engine ${events[at]}`);
  return { ...compared, replayed: events.length, ignored };
}
