/** Named filters: some of the dashboard's own, and lists of saved ones. Pure. */

export interface SavedView {
  readonly name: string;
  /** The query of the address, without a question mark. */
  readonly query: string;
}

export const givenViews: readonly SavedView[] = [
  { name: 'Failed requests', query: 'outcome=failed' },
  { name: 'Refused requests', query: 'outcome=refused' },
  { name: 'Changed by guardrails', query: 'guardrails_edited=true' },
  { name: 'Blocked by guardrails', query: 'guardrail_verdict=block' },
  { name: 'Answered from the cache', query: 'cache_type=exact&cache_type=semantic' },
  { name: 'Slower than 10 seconds', query: 'min_duration_ms=10000' },
];

const MOST_VIEWS = 50;

/** @returns undefined for anything but a list; entries of another form are left out */
export function viewsIn(stored: unknown): readonly SavedView[] | undefined {
  if (!Array.isArray(stored)) return undefined;
  return stored.flatMap((one: unknown) => {
    const { name, query }: { name?: unknown; query?: unknown } = Object(one);
    return typeof name === 'string' && typeof query === 'string' ? [{ name, query }] : [];
  });
}

/** A view with the same name is replaced; the newest is the first. */
export function withView(views: readonly SavedView[], view: SavedView): readonly SavedView[] {
  return [view, ...views.filter(({ name }) => name !== view.name)].slice(0, MOST_VIEWS);
}

export function withoutView(views: readonly SavedView[], name: string): readonly SavedView[] {
  return views.filter((view) => view.name !== name);
}
