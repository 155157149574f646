import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WorkflowIndex } from '../../src/commands/workflows/directory.ts';
import { scopeDisplay, scopeKey, scopeType, type WorkflowScope } from '../../src/commands/workflows/workflow.ts';
import { pathsAbove } from '../../src/events/event.ts';
import { countOf } from '../support/seed.ts';

const index = (...scopes: readonly WorkflowScope[]) =>
  new WorkflowIndex(scopes.map((scope) => [scope, scopeDisplay(scope)] as const));

describe('the workflow of a request', () => {
  const everything = index(
    {},
    { provider: 'openai' },
    { provider: 'openai', model: 'gpt' },
    { userPath: '/team' },
    { provider: 'openai', userPath: '/team' },
    { provider: 'openai', model: 'gpt', userPath: '/team' },
    { userPath: '/team/alpha' },
  );

  it.each([
    [undefined, undefined, undefined, 'global'],
    ['/other', 'local', 'm', 'global'],
    ['/other', 'openai', 'mini', 'openai'],
    ['/other', 'openai', 'gpt', 'openai/gpt'],
    ['/team', 'local', 'gpt', '/team'],
    ['/team', 'openai', 'mini', 'openai @ /team'],
    ['/team', 'openai', 'gpt', 'openai/gpt @ /team'],
    ['/team', undefined, undefined, '/team'],
    ['/team/beta/x', 'openai', 'gpt', 'openai/gpt @ /team'],
    ['/teams', 'local', 'm', 'global'],
    // The deepest path is first, also before a provider and a model at a path above it.
    ['/team/alpha', 'openai', 'gpt', '/team/alpha'],
    ['/team/alpha/x/y', 'openai', 'gpt', '/team/alpha'],
  ])('at %s of %s/%s is that of %s', (userPath, provider, model, scope) => {
    expect(everything.find(userPath, provider, model)).toBe(scope);
  });

  it('is none without a global one', () => {
    expect(index({ userPath: '/team' }).find('/other', 'openai', 'gpt')).toBeUndefined();
  });

  it('of a caller without a path is that of the root', () => {
    expect(index({}, { userPath: '/' }).find(undefined, 'openai', 'gpt')).toBe('/');
  });

  it('is found for a path that is longer than any path with a workflow', () => {
    const deep = `/team/alpha/${'x/'.repeat(200)}x`;
    expect(everything.find(deep, 'local', 'm')).toBe('/team/alpha');
    expect(everything.find('/teams/alpha/x', 'local', 'm')).toBe('global');
    expect(index({}, { userPath: '/' }).find(deep, 'local', 'm')).toBe('/');
  });

  const path = fc.array(fc.constantFrom('a', 'b'), { maxLength: 3 }).map((segments) => `/${segments.join('/')}`);
  const provider = fc.constantFrom('p', 'q');
  const model = fc.constantFrom('m', 'n');
  const scope: fc.Arbitrary<WorkflowScope> = fc.oneof(
    fc.constant({}),
    fc.record({ provider }),
    fc.record({ provider, model }),
    path.map((userPath) => ({ userPath })),
    fc.record({ provider, userPath: path }),
    fc.record({ provider, model, userPath: path }),
  );

  /** The rule as the documentation states it, tried one scope after another. */
  function bySpecification(scopes: ReadonlySet<string>, at: string, of: { provider: string; model: string }) {
    const paths = [...pathsAbove(at).reverse(), undefined];
    const tried = paths.flatMap((userPath) => {
      const own = userPath === undefined ? {} : { userPath };
      return [{ ...of, ...own }, { provider: of.provider, ...own }, own];
    });
    const found = tried.find((one) => scopes.has(scopeKey(one)));
    return found === undefined ? undefined : scopeDisplay(found);
  }

  it('is the first that exists of the scopes in the order of the rule, for any workflows and any request', () => {
    fc.assert(
      fc.property(fc.array(scope, { maxLength: 12 }), path, provider, model, (scopes, at, ofProvider, ofModel) => {
        const of = { provider: ofProvider, model: ofModel };
        const found = index(...scopes).find(at, of.provider, of.model);
        expect(found).toBe(bySpecification(new Set(scopes.map(scopeKey)), at, of));
      }),
      { numRuns: countOf(500, 2000) },
    );
  });
});

describe('a scope', () => {
  it.each([
    [{}, 'global', 'global', 'global'],
    [{ userPath: '/a' }, 'path', 'path:/a', '/a'],
    [{ provider: 'p' }, 'provider', 'provider:p', 'p'],
    [{ provider: 'p', model: 'm/n' }, 'provider_model', 'provider_model:p:m/n', 'p/m/n'],
    [{ provider: 'p', userPath: '/a' }, 'provider_path', 'provider_path:p:/a', 'p @ /a'],
    [{ provider: 'p', model: 'm', userPath: '/a' }, 'provider_model_path', 'provider_model_path:p:m:/a', 'p/m @ /a'],
  ])('%j has a type, a key and a text', (scope, type, key, display) => {
    expect([scopeType(scope), scopeKey(scope), scopeDisplay(scope)]).toEqual([type, key, display]);
  });
});
