/**
 * An attempt at something that readers must not do. In its text, `$FILE` is the path of a file with a canary in it,
 * `$HOST` the address and port of a listener, `$OUTSIDE` an empty folder, `$DATA` the engine's own folder.
 */
export interface Attempt {
  readonly query: string;
  /** In the URL of the ClickHouse port: settings, parameters, the database. Without it, both interfaces are attacked. */
  readonly url?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** `harmless`: it may be answered, as long as the answer holds nothing that it should not. Default: it is refused. */
  readonly outcome?: 'harmless';
}

/** Each of these must be refused. */
export function refused(...queries: readonly string[]): Attempt[] {
  return queries.map((query) => ({ query }));
}

/** Each of these may be answered, with nothing in the answer that readers may not have. */
export function harmless(...queries: readonly string[]): Attempt[] {
  return queries.map((query) => ({ query, outcome: 'harmless' }));
}

/** Each of these must be refused, with the setting in the URL and at the end of the query. */
export function refusedSettings(query: string, settings: Readonly<Record<string, string>>): Attempt[] {
  return Object.entries(settings).flatMap(([name, value]) => [
    { query, url: { [name]: value } },
    { query: `${query} SETTINGS ${name} = '${value}'` },
  ]);
}
