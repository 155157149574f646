import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { problemAround } from '../../src/commands/virtual-models/directory.ts';
import { type Expanding, expand } from '../../src/commands/virtual-models/expand.ts';
import { MAX_DEPTH, type VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import { countOf } from '../support/seed.ts';
import { mapOf, named, redirect, target } from './virtual-model-fixtures.ts';

/** Each provider serves every model that is selected with the provider's name; a bare model name has no provider. */
const by = (models: readonly VirtualModel[], more: Partial<Expanding> = {}): Expanding => ({
  redirect: (source) => mapOf(models).get(source),
  resolve: (model, provider) => (provider === undefined ? undefined : target(provider, model)),
  ...more,
});
const led = (model: VirtualModel, others: readonly VirtualModel[] = [], more: Partial<Expanding> = {}) =>
  expand(model, by([model, ...others], more)).candidates.map((one) => named(one.target));

describe('a virtual model leads', () => {
  test('to its targets, in their written order', () => {
    expect(led(redirect('fast', ['groq/a', 'openai/b']))).toEqual(['groq/a', 'openai/b']);
  });

  test('through others, in their place, with the path to each target', () => {
    const best = redirect('best', ['fast', 'openai/c']);
    const fast = redirect('fast', ['groq/a', 'tiny']);
    const tiny = redirect('tiny', ['groq/t']);
    const { candidates } = expand(best, by([best, fast, tiny]));
    expect(candidates.map((one) => [named(one.target), ...one.through])).toEqual([
      ['groq/a', 'fast'],
      ['groq/t', 'fast', 'tiny'],
      ['openai/c'],
    ]);
  });

  test('to each model once', () => {
    const best = redirect('best', ['fast', 'groq/a', 'slow']);
    expect(led(best, [redirect('fast', ['groq/a']), redirect('slow', ['groq/b', 'groq/a'])])).toEqual([
      'groq/a',
      'groq/b',
    ]);
  });

  test('past its own name to the model of that name', () => {
    const resolve = (model: string, provider?: string) => target(provider ?? 'openai', model);
    expect(led(redirect('gpt', ['gpt', 'azure/gpt']), [], { resolve })).toEqual(['openai/gpt', 'azure/gpt']);
  });

  test('to no target that the caller may not use, and reports that one was denied', () => {
    const best = redirect('best', ['groq/a', 'openai/b', 'team']);
    const team = redirect('team', ['groq/t'], { userPaths: ['/team'] });
    const found = expand(
      best,
      by([best, team], { mayUse: ({ provider }) => provider.name === 'openai', mayPass: (one) => one !== team }),
    );
    expect(found.candidates.map((one) => named(one.target))).toEqual(['openai/b']);
    expect(found.denied).toBe(true);
  });

  test('to healthy targets first', () => {
    const isReady = ({ provider }: { provider: { name: string } }) => provider.name !== 'down';
    expect(led(redirect('fast', ['down/a', 'groq/a', 'down/b', 'groq/b']), [], { isReady })).toEqual([
      'groq/a',
      'groq/b',
      'down/a',
      'down/b',
    ]);
  });

  test('and reports the targets that no provider serves', () => {
    const found = expand(redirect('fast', ['nothing', 'groq/a']), by([]));
    expect(found.unknown).toEqual([{ model: 'nothing' }]);
    expect(found.candidates).toHaveLength(1);
  });
});

/** Up to twelve virtual models that lead to one another in any way, circles among them. */
const webs = fc
  .array(fc.array(fc.integer({ min: 0, max: 14 }), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 })
  .map((all) =>
    all.map((targets, place) =>
      redirect(
        `m${place}`,
        [...new Set(targets)].map((to) => (to < all.length ? `m${to}` : `groq/x${to}`)),
      ),
    ),
  );

describe('any web of virtual models', () => {
  test('is expanded in finite time, and each model is there once', () => {
    fc.assert(
      fc.property(webs, (web) => {
        for (const model of web) {
          const found = led(model, web);
          expect(new Set(found).size).toBe(found.length);
        }
      }),
    );
  });

  test('without circles and within the depth leads to all that can be reached', () => {
    fc.assert(
      fc.property(webs, (web) => {
        const models = mapOf(web);
        const [first] = web;
        fc.pre(first !== undefined && web.every(({ source }) => problemAround(source, models) === undefined));
        if (first === undefined) return;
        const reached = new Set<string>();
        const visit = (model: VirtualModel): void => {
          for (const { provider, model: name } of model.targets) {
            const next = provider === undefined && name !== model.source ? models.get(name) : undefined;
            if (next !== undefined) visit(next);
            else if (provider !== undefined) reached.add(`${provider}/${name}`);
          }
        };
        visit(first);
        expect(new Set(led(first, web))).toEqual(reached);
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  test('reports a circle for each of its members, and for no other model', () => {
    fc.assert(
      fc.property(webs, (web) => {
        const models = mapOf(web);
        for (const { source } of web) {
          const onCircle = reaches(source, source, models);
          expect(problemAround(source, models)?.kind === 'cycle').toBe(onCircle);
        }
      }),
    );
  });

  test('is followed through eight virtual models and no further', () => {
    const chain = Array.from({ length: MAX_DEPTH + 1 }, (_, n) =>
      redirect(`m${n}`, n === MAX_DEPTH ? ['groq/end'] : [`m${n + 1}`, `groq/x${n}`]),
    );
    const [first, second] = chain;
    if (first === undefined || second === undefined) throw new Error('there is no chain');
    expect(led(first, chain)).not.toContain('groq/end');
    expect(led(second, chain)).toContain('groq/end');
  });

  test('with 20^7 ways is expanded at once', () => {
    const web = Array.from({ length: 7 }, (_, level) =>
      Array.from({ length: 20 }, (__, n) =>
        redirect(
          `l${level}n${n}`,
          Array.from({ length: 20 }, (___, to) => (level === 6 ? `groq/x${to}` : `l${level + 1}n${to}`)),
        ),
      ),
    ).flat();
    const [first] = web;
    expect(first && led(first, web)).toHaveLength(20);
  });
});

function reaches(from: string, to: string, models: ReadonlyMap<string, VirtualModel>): boolean {
  const seen = new Set<string>();
  const visit = (name: string): boolean => {
    const model = models.get(name);
    return (model?.targets ?? []).some((one) => {
      if (one.provider !== undefined || one.model === name || !models.has(one.model)) return false;
      if (one.model === to) return true;
      if (seen.has(one.model)) return false;
      seen.add(one.model);
      return visit(one.model);
    });
  };
  return visit(from);
}
