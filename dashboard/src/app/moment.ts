const form = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** Whether a text is an `as_of` that the API accepts: a position of the log, a day, or a time with its zone (RFC 3339). */
export function isMoment(text: string): boolean {
  if (/^\d+$/.test(text)) return true;
  const day = form.exec(text)?.[1];
  if (day === undefined || Number.isNaN(Date.parse(text))) return false;
  // `Date` counts February 30 as a day of March.
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}
