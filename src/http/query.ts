/** The query of a request, as Fastify reads it. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The value of a parameter; of several, the last. An empty one counts as not given. */
export function single(value: Query[string]): string | undefined {
  const one = typeof value === 'object' ? value.at(-1) : value;
  return one === '' ? undefined : one;
}
