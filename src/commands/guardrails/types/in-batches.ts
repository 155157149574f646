/** Runs an asynchronous function over values, a few at a time. Equal values are computed once. */
export async function inBatches<Result>(
  values: readonly string[],
  most: number,
  compute: (value: string) => Promise<Result>,
): Promise<ReadonlyMap<string, Result>> {
  const results = new Map<string, Result>();
  const open = [...new Set(values)];
  const work = async () => {
    for (let value = open.pop(); value !== undefined; value = open.pop()) results.set(value, await compute(value));
  };
  await Promise.all(Array.from({ length: Math.min(most, open.length) }, work));
  return results;
}
