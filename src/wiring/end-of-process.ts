/** Ends the process although something in it does not end: a connection, a timer, or work that never settles. */

/** What closes by itself gets so long. */
const CLOSING_MS = 1_000;

/** What is open, for the operator: for example `TCPSocketWrap, Timeout × 2`. */
function whatIsOpen(): string {
  const counts = new Map<string, number>();
  for (const one of process.getActiveResourcesInfo()) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} × ${count}`)).join(', ');
}

/**
 * To be called when all work is done: the process ends a second later with this exit code, or earlier by itself.
 * @param report called when something was still open
 */
export function endSoon(exitCode: number, report: (message: string) => void): void {
  const end = () => {
    report(`the process ends although something in it is still open: ${whatIsOpen()}`);
    process.exit(exitCode);
  };
  // It does not keep the process alive itself.
  setTimeout(end, CLOSING_MS).unref();
}

/** The result of the work. When it takes longer, the process ends with code 1, so that a supervisor starts it anew. */
export async function orEnd<Result>(
  work: Promise<Result>,
  ms: number,
  report: (message: string) => void,
): Promise<Result> {
  const late = setTimeout(() => {
    report(`The gateway has not stopped within ${ms / 1000} s; the process ends. Still open: ${whatIsOpen()}`);
    process.exit(1);
  }, ms);
  try {
    return await work;
  } finally {
    clearTimeout(late);
  }
}
