/** What the page of budgets computes: periods in words, projections, and spending up to a past time. */
import { describe, expect, it } from 'vitest';
import { periodTitle } from '../../../dashboard/src/pages/budgets/periods.ts';
import { projectedEnd } from '../../../dashboard/src/pages/budgets/projected-end.ts';
import { canonicalSubject, findRule } from '../../../dashboard/src/pages/budgets/rule-name.ts';
import { saveNewRule } from '../../../dashboard/src/pages/budgets/save-new-rule.ts';
import { spentOn } from '../../../dashboard/src/pages/budgets/spent-on.ts';
import { purgeBody, purgedAnswers } from '../../../dashboard/src/pages/cache/purge-selection.ts';
import { usesOf } from '../../../dashboard/src/pages/plugins/plugin-uses.ts';

const HOUR = 3_600_000;

describe('the time at which a budget is used up', () => {
  const day = { start: 0, end: 24 * HOUR, amount: 10 };

  it('continues the average pace of the period', () => {
    expect(projectedEnd({ ...day, spent: 5 }, 6 * HOUR)).toBe(12 * HOUR);
    expect(projectedEnd({ ...day, spent: 1, start: 5 * HOUR }, 6 * HOUR)).toBe(15 * HOUR);
  });

  it('is unknown where the amount lasts until the period ends, and without spending', () => {
    expect(projectedEnd({ ...day, spent: 2.5 }, 6 * HOUR)).toBeUndefined();
    expect(projectedEnd({ ...day, spent: 0 }, 6 * HOUR)).toBeUndefined();
    expect(projectedEnd({ ...day, spent: 1 }, 0)).toBeUndefined();
  });

  it('is the present when it is used up', () => {
    expect(projectedEnd({ ...day, spent: 11 }, 6 * HOUR)).toBe(6 * HOUR);
  });
});

describe('the title of a period', () => {
  it.each([
    [86_400, 'daily', 'daily'],
    [0, 'concurrent', 'concurrent'],
    [5_400, '5400s', '90 minutes'],
    [172_800, '172800s', '2 days'],
    [1, '1s', '1 second'],
  ])('of %d seconds (%s) is %s', (seconds, label, title) => {
    expect(periodTitle(seconds, label)).toBe(title);
  });
});

describe('spending up to a past time', () => {
  const usage = [
    { scope: 'user_path', subject: '/team', cost: 1 },
    { scope: 'user_path', subject: '/team/a', cost: 2 },
    { scope: 'user_path', subject: '/teams', cost: 4 },
    { scope: 'user_path', subject: '/', cost: null },
    { scope: 'label', subject: '/team', cost: 8 },
  ] as const;

  it('is that of the path and of paths below it', () => {
    expect(spentOn({ scope: 'user_path', subject: '/team' }, usage)).toBe(3);
    expect(spentOn({ scope: 'user_path', subject: '/' }, usage)).toBe(7);
    expect(spentOn({ scope: 'user_path', subject: '/other' }, usage)).toBe(0);
  });

  it('is that of the label alone', () => {
    expect(spentOn({ scope: 'label', subject: '/team' }, usage)).toBe(8);
  });
});

describe('a new budget or rate limit', () => {
  const name = { scope: 'user_path', subject: '/team', period_seconds: 60 };
  /** A gateway with these rules, in which revisions count the changes of a subject. */
  function gatewayWith(
    rules: readonly (typeof name & { revision?: string })[],
    revision: string | undefined,
    last = revision ?? 'none',
  ) {
    const sent: (string | undefined)[] = [];
    return {
      sent,
      save: () =>
        saveNewRule({
          name,
          readRules: async () => rules,
          isConflict: (error) => error instanceof Error && error.message === 'changed',
          existing: () => new Error('exists'),
          lastRevision: async () => last,
          async send(ifMatch) {
            sent.push(ifMatch);
            const expected = revision ?? 'none';
            if (ifMatch === expected) return 'saved';
            throw new Error('changed');
          },
        }),
    };
  }

  it('is the first change of its subject', async () => {
    const { save, sent } = gatewayWith([], undefined);
    expect(await save()).toBe('saved');
    expect(sent).toEqual(['none']);
  });

  it('is based on the revision of the other rules of its subject', async () => {
    const { save, sent } = gatewayWith([{ ...name, period_seconds: 3600, revision: '4' }], '4');
    expect(await save()).toBe('saved');
    expect(sent).toEqual(['4']);
  });

  it('is saved where earlier rules of the subject were removed', async () => {
    const { save, sent } = gatewayWith([], '7');
    expect(await save()).toBe('saved');
    expect(sent).toEqual(['none', '7']);
  });

  it('is not saved over one that is created while the last revision is read', async () => {
    const { save, sent } = gatewayWith([], '8', '7');
    await expect(save()).rejects.toThrow('changed');
    expect(sent).toEqual(['none', '7']);
  });

  it('is not sent over one that exists', async () => {
    const { save, sent } = gatewayWith([{ ...name, revision: '2' }], '2');
    await expect(save()).rejects.toThrow('exists');
    expect(sent).toEqual([]);
  });

  it('has its path in the form of the gateway', () => {
    expect(canonicalSubject('user_path', ' team/a/ ')).toBe('/team/a');
    expect(canonicalSubject('user_path', '/')).toBe('/');
    expect(canonicalSubject('label', ' batch/ ')).toBe('batch/');
    expect(findRule([name], { ...name, scope: 'label' })).toBeUndefined();
  });
});

describe('a purge', () => {
  it('has the fields that are filled in', () => {
    expect(purgeBody({ userPath: ' /team ', model: '', provider: 'openai' })).toEqual({
      user_path: '/team',
      provider: 'openai',
    });
    expect(purgeBody({ userPath: '', model: ' ', provider: '' })).toEqual({});
  });

  it('states what it removes', () => {
    expect(purgedAnswers({ user_path: '/team', provider: 'openai', model: 'm' })).toBe(
      'answers of the provider openai with the model m to requests at /team and below it',
    );
  });
});

describe('where a plugin is used', () => {
  it('has its guardrails, the active workflows with a step of them, and virtual models', () => {
    const workflow = (name: string, active: boolean, refs: string[]) => ({
      ...{ name, active },
      workflow_payload: { steps: refs.map((ref) => ({ ref })) },
    });
    const uses = usesOf('words', {
      guardrails: [
        { name: 'one', type: 'words' },
        { name: 'two', type: 'pii' },
      ],
      workflows: [workflow('w', true, ['two', 'one']), workflow('old', false, ['one']), workflow('x', true, ['two'])],
      virtualModels: [{ source: 'fast', strategy_plugin: 'words' }, { source: 'slow' }],
    });
    expect(uses).toEqual({ guardrails: ['one'], workflows: ['w'], virtualModels: ['fast'] });
  });
});
