/** The name of a database, table, user or profile as ClickHouse reads it whatever it contains: in backticks. */
export function quotedIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
