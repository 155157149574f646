/** The times in which a gateway's log could not be written, as the gateway reported them in its diagnostics. */
import type { Answer, LogFailure } from './evidence.ts';

const FAILED = 'the event log cannot be written';
const RECOVERED = 'the event log can be written again';
/** Both clocks count milliseconds, one of them whole ones. */
const ROUNDING_MS = 2;

/** @param printed standard error of the gateway: JSON lines with `time` and `msg`, of level `info`, and at its end plain text for the operator */
export function logFailuresIn(printed: string): LogFailure[] {
  const found: LogFailure[] = [];
  let from: number | undefined;
  for (const line of printed.split('\n')) {
    if (!line.startsWith('{') || !(line.includes(FAILED) || line.includes(RECOVERED))) continue;
    const { time, msg, err } = parsedLine(line);
    if (msg.startsWith(FAILED) && err === undefined) from ??= time - ROUNDING_MS;
    if (msg !== RECOVERED || from === undefined) continue;
    found.push({ from, to: time + ROUNDING_MS });
    from = undefined;
  }
  if (from !== undefined) found.push({ from, to: Number.POSITIVE_INFINITY });
  return found;
}

/** The log could not be written at some time between the request and the end of its answer. */
export function metFailure({ url, sentAt, endedAt }: Answer, failures: readonly LogFailure[]): boolean {
  return failures.some((failure) => (failure.url ?? url) === url && sentAt <= failure.to && endedAt >= failure.from);
}

function parsedLine(line: string): { readonly time: number; readonly msg: string; readonly err?: unknown } {
  const { time, msg, err } = JSON.parse(line) as { time: string; msg: string; err?: unknown };
  return { time: Date.parse(time) - Date.now() + performance.now(), msg, err };
}
