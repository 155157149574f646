import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ObjectCommand, objectDecider } from '../../src/commands/administered.ts';
import { type ModelPricing, type PriceOverride, pricingSchema } from '../../src/commands/pricing/model-pricing.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { priceOverrideRemoved, priceOverrideSet } from '../../src/events/catalogue/budget.ts';
import { upcast } from '../../src/events/catalogue/catalogue.ts';
import { usageRecorded } from '../../src/events/catalogue/exchange.ts';
import { type EventContext, type Position, type RecordedEvent, streamName } from '../../src/events/event.ts';
import { fold } from '../../src/projections/projection.ts';
import { priceOverrides, priceOverridesView } from '../../src/projections/provider-memory.ts';
import { specify } from '../support/decider-spec.ts';

const context: EventContext = { actor: 'master' };
const priceOverrideDecider = objectDecider(priceOverrides, 'pricing override');
const priceStream = (selector: string) => streamName('price', selector);
const by = { context, isVisible: () => true };
const selector = 'openai/small';
const cheap: ModelPricing = { input_per_mtok: 1, output_per_mtok: 2 };
const dear: ModelPricing = { input_per_mtok: 10, tiers: [{ up_to_tokens: 5, input_per_mtok: 9 }] };
const set = (pricing: ModelPricing) => priceOverrideSet.create({ selector, pricing }, context);
const removed = priceOverrideRemoved.create({ selector }, context);

describe('a pricing override', () => {
  const { given } = specify(priceOverrideDecider);

  it('is set', () => {
    given()
      .when({ ...by, kind: 'save', key: selector, value: { selector, pricing: cheap } })
      .then([set(cheap)]);
  });

  it('is replaced as a whole', () => {
    given(set(cheap))
      .when({ ...by, kind: 'save', key: selector, value: { selector, pricing: dear } })
      .then([set(dear)]);
  });

  it('gives no event when nothing changes', () => {
    given(set(dear))
      .when({
        ...by,
        kind: 'save',
        key: selector,
        value: { selector, pricing: { tiers: dear.tiers, input_per_mtok: 10, per_page: undefined } },
      })
      .then([]);
  });

  it('is removed', () => {
    given(set(cheap))
      .when({ ...by, kind: 'remove', key: selector })
      .then([removed]);
  });

  it('is not found when it does not exist', () => {
    given()
      .when({ ...by, kind: 'remove', key: selector })
      .then({ status: 404 });
    given(set(cheap), removed)
      .when({ ...by, kind: 'remove', key: selector })
      .then({ status: 404 });
  });
});

describe('the members of a pricing override', () => {
  const problemOf = (pricing: unknown) => {
    const read = pricingSchema.safeParse(pricing);
    return read.success ? undefined : [read.error.issues[0]?.path.join('.'), read.error.issues[0]?.message];
  };

  it.each([
    [{}, '', 'at least one rate is needed'],
    [{ input_per_mtok: -0.01 }, 'input_per_mtok', 'an amount cannot be negative'],
    [{ input_per_mtok: '1' }, 'input_per_mtok', 'expected an amount of US dollars as a number'],
    [{ input_per_mtok: null }, 'input_per_mtok', 'expected an amount of US dollars as a number'],
    [JSON.parse('{"input_per_mtok":1e999}'), 'input_per_mtok', 'expected an amount of US dollars as a number'],
    [{ output_per_mtok: 2e6 }, 'output_per_mtok', 'at most 1000000'],
    [{ output_per_mtok: 1e-9 }, 'output_per_mtok', '0, or at least 0.000001'],
    [{ per_request: 2000 }, 'per_request', 'at most 1000'],
    [{ tiers: [] }, 'tiers', expect.any(String)],
    [{ tiers: [{ input_per_mtok: 1 }] }, 'tiers.0', "a tier has either 'up_to_tokens' or 'up_to_mtok'"],
    [{ tiers: [{ up_to_tokens: 5 }] }, 'tiers.0', 'a tier has at least one rate'],
    [{ tiers: [{ up_to_tokens: 0, input_per_mtok: 1 }] }, 'tiers.0.up_to_tokens', expect.any(String)],
    [{ tiers: [{ up_to_tokens: 5, up_to_mtok: 1, input_per_mtok: 1 }] }, 'tiers.0', expect.stringContaining('either')],
    [
      { tiers: [1, 1].map((tokens) => ({ up_to_tokens: tokens, input_per_mtok: 1 })) },
      'tiers',
      'each tier goes further than the one before',
    ],
  ])('not %j', (pricing, place, message) => {
    expect(problemOf(pricing)).toEqual([place, message]);
  });

  it.each([
    [{ input_per_mtok: 0 }],
    [{ input_per_mtok: 0.000001, per_character_input: 1e-12 }],
    [
      {
        tiers: [
          { up_to_mtok: 0.1, output_per_mtok: 1 },
          { up_to_tokens: 200_000, input_per_mtok: 1 },
        ],
      },
    ],
  ])('but %j', (pricing) => {
    expect(problemOf(pricing)).toBeUndefined();
  });
});

describe('the list of pricing overrides', () => {
  const amount = fc.integer({ min: 0, max: 100 });
  const command = fc.record({
    selector: fc.constantFrom('/', 'openai/', 'small', 'openai/small'),
    amount: fc.option(amount, { nil: undefined }),
  });

  /** The commands, each decided on the state that earlier ones left in its stream. */
  function historyOf(commands: readonly { selector: string; amount: number | undefined }[]): RecordedEvent[] {
    const states = new Map<string, { state: PriceOverride | undefined; revision: bigint }>();
    const events: RecordedEvent[] = [];
    for (const { selector: which, amount: price } of commands) {
      const { state, revision } = states.get(which) ?? { state: undefined, revision: -1n };
      const wanted: ObjectCommand<PriceOverride> =
        price === undefined
          ? { ...by, kind: 'remove', key: which }
          : { ...by, kind: 'save', key: which, value: { selector: which, pricing: { input_per_mtok: price } } };
      const decided = priceOverrideDecider.decide(wanted, state);
      if (decided instanceof Refusal) continue;
      for (const event of decided) {
        const position = String(events.length + 1).padStart(16, '0') as Position;
        const recorded = {
          ...event,
          id: position,
          stream: priceStream(which),
          revision: revision + 1n,
          position,
          at: events.length,
        };
        events.push(recorded);
        states.set(which, { state: priceOverrideDecider.evolve(state, event), revision: revision + 1n });
      }
    }
    return events;
  }

  it('is the same from the beginning and from any snapshot, and equals the state of the streams', () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 40 }), fc.nat(40), (commands, cut) => {
        const events = historyOf(commands);
        const whole = fold(priceOverridesView, events);
        const half = fold(priceOverridesView, events.slice(0, cut));
        const loaded = priceOverridesView.load?.(structuredClone(priceOverridesView.save?.(half)));
        expect(fold(priceOverridesView, events.slice(cut), loaded).byKey).toEqual(whole.byKey);
        for (const which of ['/', 'openai/', 'small', 'openai/small']) {
          const own = events.filter(({ stream }) => stream === priceStream(which));
          const state = own.reduce(priceOverrideDecider.evolve, priceOverrideDecider.initial);
          expect(whole.byKey.get(which)?.value).toEqual(state);
          if (state !== undefined) {
            expect(whole.byKey.get(which)?.revision).toBe(Number(own.at(-1)?.revision));
          }
        }
      }),
    );
  });
});

describe('usage that was recorded before there were prices', () => {
  it('is read with a cost that is not known', () => {
    const data = {
      provider: 'local',
      providerType: 'llamacpp',
      model: 'tiny',
      endpoint: '/v1/chat/completions',
      inputTokens: 10,
      outputTokens: 5,
      totalTokens: 15,
      cachedInputTokens: null,
      reasoningTokens: null,
      source: 'provider',
      raw: { prompt_tokens: 10 },
    };
    const stored: RecordedEvent = {
      id: 'e',
      type: 'usage.recorded',
      schema: 1,
      stream: streamName('exchange', 'x'),
      revision: 4n,
      position: '0000000000000005' as Position,
      at: 0,
      context,
      data,
    };
    const read = upcast(stored);
    expect(read.schema).toBe(2);
    expect(usageRecorded.data.parse(read.data)).toMatchObject({
      ...data,
      totalCost: null,
      cacheWriteInputTokens: null,
    });
  });
});
