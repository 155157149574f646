/** The days of a calendar, in columns of weeks that begin on Monday. Days are `YYYY-MM-DD`. */

const DAY_MS = 86_400_000;

/** The last `weeks` weeks up to that of `today`; days after today are left out. */
export function calendarWeeks(today: string, weeks: number): readonly (readonly string[])[] {
  const last = Date.parse(`${today}T00:00:00Z`);
  const monday = last - ((new Date(last).getUTCDay() + 6) % 7) * DAY_MS;
  return Array.from({ length: weeks }, (_, place) => {
    const start = monday - (weeks - 1 - place) * 7 * DAY_MS;
    const count = Math.min(7, (last - start) / DAY_MS + 1);
    return Array.from({ length: count }, (_day, at) => new Date(start + at * DAY_MS).toISOString().slice(0, 10));
  });
}

/** In which week each month begins: where its name is written. Months of which less than two weeks are shown have none. */
export function monthStarts(weeks: readonly (readonly string[])[]): readonly { week: number; month: string }[] {
  const starts: { week: number; month: string }[] = [];
  for (const [week, days] of weeks.entries()) {
    const month = days[0]?.slice(0, 7);
    if (month !== undefined && month !== weeks[week - 1]?.[0]?.slice(0, 7)) starts.push({ week, month });
  }
  return starts.filter(({ week }, place) => (starts[place + 1]?.week ?? weeks.length) - week > 2);
}
