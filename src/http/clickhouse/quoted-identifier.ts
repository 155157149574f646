/** The name of a database, table, user or profile in backticks, so that ClickHouse reads any characters in it. */
export function quotedIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
