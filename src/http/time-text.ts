/** A time as every answer writes it, in ISO 8601. @param ms milliseconds since the epoch */
export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
