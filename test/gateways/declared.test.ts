/** What the configuration declares, with several gateways: recorded once, and that of the latest start is in force. */
import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

const several = withSeveral({ delays: [], env: { SET_BUDGET_TEAM: 'daily=10', SET_RATE_LIMIT_TEAM: 'rpm=5' } });

async function amountAt(one: OneOfSeveral): Promise<unknown> {
  const { budgets } = (await (await one.fetch('/admin/budgets')).json()) as Answered;
  return budgets.map(({ amount }: Answered) => amount);
}

describe('declared budgets, rate limits and the default workflow', () => {
  it('are recorded once by three gateways that start at the same time', async () => {
    const all = await Promise.all([several.start(0), several.start(10), several.start(25)]);
    for (const one of all) expect(await amountAt(one)).toEqual([10]);
    const [first] = all;
    const types = (await first.events()).map(({ type }) => type);
    const recorded = types.filter((type) => /^(budget|rate_limit|workflow)\./.test(type));
    expect(recorded.toSorted()).toEqual(['budget.set', 'rate_limit.set', 'workflow.created']);
  }, 60_000);

  it('are those of the gateway that started last, on all gateways', async () => {
    const one = await several.start(0);
    const other = await several.start(10, { SET_BUDGET_TEAM: 'daily=20' });
    expect(await amountAt(other)).toEqual([20]);
    expect(await amountAt(one)).toEqual([20]);
    const before = (await one.events()).filter(({ type }) => type.startsWith('budget.')).length;
    await several.start(0, { SET_BUDGET_TEAM: 'daily=20' });
    expect((await one.events()).filter(({ type }) => type.startsWith('budget.'))).toHaveLength(before);
  }, 60_000);
});
