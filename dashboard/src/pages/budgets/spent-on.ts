/** Spending of budgets in rows of usage reports. */

export interface SpentBy {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  /** US dollars; null when it is unknown. */
  readonly cost: number | null;
}

/** US dollars of the subject of a budget: of a path with all paths below it, or of a label. Unknown costs count as 0. */
export function spentOn({ scope, subject }: Pick<SpentBy, 'scope' | 'subject'>, usage: readonly SpentBy[]): number {
  const isCharged = (row: SpentBy) => row.scope === scope && (row.subject === subject || isBelow(row, subject));
  return usage.filter(isCharged).reduce((sum, { cost }) => sum + (cost ?? 0), 0);
}

function isBelow({ scope, subject }: SpentBy, path: string): boolean {
  return scope === 'user_path' && subject.startsWith(path === '/' ? '/' : `${path}/`);
}
