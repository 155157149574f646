/** Polls until `holds` resolves to true. @throws Error with `what` after `patienceMs` */
export async function until(what: string, holds: () => Promise<boolean>, patienceMs = 30_000): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${patienceMs} ms: ${what}`);
    // A time: between two looks at another process.
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
