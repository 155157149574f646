/** A time in ISO 8601, as in all answers. @param ms milliseconds since the epoch */
export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
