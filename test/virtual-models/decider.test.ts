import { describe, test } from 'vitest';
import {
  type VirtualModelCommand,
  type VirtualModelContext,
  virtualModelDecider,
} from '../../src/commands/virtual-models/decider.ts';
import type { VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import { virtualModelRemoved, virtualModelSaved } from '../../src/events/catalogue/workflow.ts';
import { specify } from '../support/decider-spec.ts';
import { around, policy, redirect } from './virtual-model-fixtures.ts';

const context = { actor: 'master' } as const;
const spec = specify(virtualModelDecider);

const saved = (model: VirtualModel, renamedFrom?: string) =>
  virtualModelSaved.create(
    { ...model, targets: [...model.targets], ...(renamedFrom === undefined ? {} : { renamedFrom }) },
    context,
  );
const removed = (source: string) => virtualModelRemoved.create({ source }, context);

const save = (
  model: VirtualModel,
  surroundings: VirtualModelContext = around([]),
  renames?: string,
): VirtualModelCommand => ({
  kind: 'save',
  source: model.source,
  model,
  renames,
  around: surroundings,
  context,
});
const remove = (source: string, surroundings: VirtualModelContext): VirtualModelCommand => ({
  kind: 'remove',
  source,
  around: surroundings,
  context,
});

const fast = redirect('fast', ['groq/small']);

describe('a virtual model', () => {
  test('is made', () => {
    spec
      .given()
      .when(save(fast))
      .then([saved(fast)]);
  });

  test('is changed as a whole', () => {
    const other = redirect('fast', ['groq/large', 'groq/small'], { strategy: 'cost', description: 'cheap' });
    spec
      .given(saved(fast))
      .when(save(other, around([fast])))
      .then([saved(other)]);
  });

  test('gives no event when nothing changes', () => {
    spec
      .given(saved(fast))
      .when(save(fast, around([fast])))
      .then([]);
    const weighted = redirect('fast', [{ provider: 'groq', model: 'small', weight: 2 }]);
    spec
      .given(saved(weighted))
      .when(save(fast, around([weighted])))
      .then([saved(fast)]);
  });

  test('is removed, and can be made again', () => {
    spec
      .given(saved(fast))
      .when(remove('fast', around([fast])))
      .then([removed('fast')]);
    spec
      .given(saved(fast), removed('fast'))
      .when(save(fast))
      .then([saved(fast)]);
  });

  test('that does not exist cannot be removed', () => {
    spec
      .given()
      .when(remove('fast', around([])))
      .then({ status: 404 });
    spec
      .given(saved(fast), removed('fast'))
      .when(remove('fast', around([])))
      .then({ status: 404 });
  });

  test('of the configuration can neither be changed nor removed, nor its name given to another', () => {
    const managed = around([fast], { isDeclared: (source) => source === 'fast' });
    spec
      .given()
      .when(save(redirect('fast', ['groq/large']), managed))
      .then('virtual_model_managed');
    spec.given().when(remove('fast', managed)).then({ status: 409, code: 'virtual_model_managed' });
    const quick = redirect('quick', ['groq/small']);
    spec
      .given()
      .when(save(quick, managed, 'fast'))
      .then('virtual_model_managed');
    spec
      .given()
      .when(save(fast, managed, 'quick'))
      .then('virtual_model_managed');
  });
});

describe('a chain of virtual models', () => {
  test('may be eight deep, and no deeper', () => {
    const chain = Array.from({ length: 8 }, (_, n) => redirect(`m${n}`, [n === 7 ? 'groq/small' : `m${n + 1}`]));
    spec
      .given()
      .when(save(redirect('m0', ['m1']), around(chain.slice(1))))
      .then([saved(redirect('m0', ['m1']))]);
    const ninth = redirect('m-1', ['m0']);
    spec
      .given()
      .when(save(ninth, around(chain)))
      .then({ status: 400, code: 'virtual_model_too_deep' });
    // The length of the whole chain counts, wherever the link is put in.
    const end = redirect('m7', ['end']);
    const longer = around([...chain.slice(0, 7), redirect('end', ['groq/small'])]);
    spec.given().when(save(end, longer)).then('virtual_model_too_deep');
  });

  test('cannot lead back to its beginning', () => {
    const [a, b, c] = [redirect('a', ['b']), redirect('b', ['groq/x', 'c']), redirect('c', ['groq/y'])];
    spec
      .given(saved(c))
      .when(save(redirect('c', ['groq/y', 'a']), around([a, b, c])))
      .then({
        status: 400,
        code: 'virtual_model_cycle',
        message: 'The virtual models would form a cycle: c → a → b → c.',
      });
  });

  test('does not go through itself: its own name is then that of a model of a provider', () => {
    const shadow = redirect('gpt-4o', ['gpt-4o', 'azure/gpt-4o']);
    spec
      .given()
      .when(save(shadow))
      .then([saved(shadow)]);
  });

  test('cannot lead to itself alone: no provider has a model of its name', () => {
    spec
      .given()
      .when(save(redirect('mine', ['groq/small', 'mine']), around([], { serves: () => false })))
      .then({
        status: 400,
        code: 'virtual_model_cycle',
        message: 'The virtual models would form a cycle: mine → mine.',
      });
  });

  test('ends where a provider is named', () => {
    const a = redirect('a', ['groq/b']);
    spec
      .given(saved(a))
      .when(save(redirect('b', ['a']), around([a])))
      .then([saved(redirect('b', ['a']))]);
  });

  test('ignores a circle elsewhere, which a configuration may have brought', () => {
    const others = [redirect('x', ['y']), redirect('y', ['x'])];
    spec
      .given()
      .when(save(fast, around(others)))
      .then([saved(fast)]);
  });

  test('keeps its links: none of them can be removed, renamed or made a policy', () => {
    const user = redirect('best', ['fast']);
    const both = around([fast, user]);
    spec.given(saved(fast)).when(remove('fast', both)).then({ status: 409, code: 'virtual_model_in_use' });
    spec
      .given()
      .when(save(redirect('quick', ['groq/small']), both, 'fast'))
      .then('virtual_model_in_use');
    spec
      .given(saved(fast))
      .when(save(policy('fast', { enabled: false }), both))
      .then('virtual_model_in_use');
    spec
      .given(saved(user))
      .when(remove('best', both))
      .then([removed('best')]);
  });
});

describe('another name', () => {
  const quick = redirect('quick', ['groq/small']);

  test('is given, and the event has the name before', () => {
    spec
      .given()
      .when(save(quick, around([fast]), 'fast'))
      .then([saved(quick, 'fast')]);
  });

  test('must be free', () => {
    spec
      .given(saved(quick))
      .when(save(quick, around([fast, quick]), 'fast'))
      .then({ status: 409, code: 'virtual_model_exists' });
  });

  test('is not given to a virtual model that does not exist', () => {
    spec
      .given()
      .when(save(quick, around([]), 'fast'))
      .then({ status: 404 });
  });
});

describe('a policy without effect', () => {
  const nothing = policy('groq/');

  test('is not kept, and removed when it was there', () => {
    spec.given().when(save(nothing)).then([]);
    const before = policy('groq/', { enabled: false });
    spec
      .given(saved(before))
      .when(save(nothing, around([before])))
      .then([removed('groq/')]);
  });

  test('is kept where it reverses a less specific policy', () => {
    const off = policy('/', { enabled: false });
    spec
      .given()
      .when(save(nothing, around([off])))
      .then([saved(nothing)]);
    const elsewhere = policy('openai/', { enabled: false });
    spec
      .given()
      .when(save(nothing, around([elsewhere])))
      .then([]);
  });

  test('is kept where nothing may be used by default', () => {
    const around_ = around([], { enabledByDefault: false });
    spec
      .given()
      .when(save(nothing, around_))
      .then([saved(nothing)]);
    spec
      .given()
      .when(save(policy('groq/', { enabled: false }), around_))
      .then([]);
  });
});
