/** `/admin/model-pricing-overrides`: model prices that replace those of the configuration or the snapshot. */

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { canonicalSelector, parseSelector } from '../../commands/access/selector.ts';
import { executeCommand } from '../../commands/handle-command.ts';
import { pricingSchema } from '../../commands/pricing/model-pricing.ts';
import { type PriceOverrideCommand, priceOverrideDecider, priceStream } from '../../commands/pricing/price-override.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import type { EventLog } from '../../events/log.ts';
import { type PriceOverride, type PriceOverrides, priceOverridesView } from '../../projections/price-overrides.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import { type Query, single } from '../query.ts';
import { sendRows } from '../send-rows.ts';
import { bodyOf, eventContextOf } from '../server.ts';
import type { AsOf } from './as-of.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { requestedAsOf } from './page.ts';
import { readBody } from './read-body.ts';

export interface PricingOverridesOptions {
  readonly log: EventLog;
  readonly overrides: Pick<RunningProjection<PriceOverrides>, 'state' | 'whenProcessed'>;
  readonly asOf: AsOf;
  isProvider(name: string): boolean;
}

const MAX_SELECTOR_LENGTH = 256;
const MAX_OVERRIDES = 10_000;

const selector = z.string().min(1).max(MAX_SELECTOR_LENGTH);
const newOverride = z.strictObject({ selector, pricing: pricingSchema });
const oneOverride = z.strictObject({ selector });

const route = { exposeHeadRoute: false, config: { access: 'global-admin' } } as const;
const shown = { exposeHeadRoute: false, config: { access: 'global-admin', etag: true } } as const;
const change = { config: { access: 'global-admin', ifMatch: '/model-pricing-overrides/:selector' } } as const;

export function registerPricingOverrides(admin: Routes, options: PricingOverridesOptions): void {
  const { log, overrides, asOf } = options;

  async function execute(command: PriceOverrideCommand, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const stream = priceStream(command.selector);
    const ifRevision = ifMatch(request);
    const { position, revision } = await executeCommand(priceOverrideDecider, command, { log, stream, ifRevision });
    if (position !== undefined) await overrides.whenProcessed(position);
    sendETag(reply, revision);
  }

  admin.get('/model-pricing-overrides', route, async (request, reply) => {
    const moment = await asOf.moment(requestedAsOf(request));
    const state = moment === undefined ? overrides.state : await asOf.fold(priceOverridesView, moment);
    return sendRows(reply, overrideRows(state));
  });

  admin.get<{ Params: { selector: string } }>('/model-pricing-overrides/:selector', shown, async (request, reply) => {
    const selector = canonical(request.params.selector, () => true);
    const moment = await asOf.moment(requestedAsOf(request));
    const { bySelector } = moment === undefined ? overrides.state : await asOf.fold(priceOverridesView, moment);
    const override = bySelector.get(selector);
    if (override === undefined) throw refusals.notFound('pricing override', selector);
    sendETag(reply, String(override.revision));
    return overrideRow(override);
  });

  admin.put('/model-pricing-overrides', change, async (request, reply) => {
    const { selector: given, pricing } = readBody(request, newOverride);
    const selector = canonical(given, options.isProvider);
    const { bySelector } = overrides.state;
    if (bySelector.size >= MAX_OVERRIDES && !bySelector.has(selector)) {
      throw refusals.invalidRequest(`There are ${MAX_OVERRIDES} pricing overrides already; remove one first.`, null);
    }
    await execute({ kind: 'set', selector, pricing, context: eventContextOf(request) }, request, reply);
    const now = overrides.state.bySelector.get(selector);
    if (now === undefined) throw refusals.changedMeanwhile(selector);
    return overrideRow(now);
  });

  admin.delete<{ Querystring: Query }>('/model-pricing-overrides', change, async (request, reply) => {
    const given =
      bodyOf(request).length > 0 ? readBody(request, oneOverride).selector : single(request.query['selector']);
    if (given === undefined) throw refusals.missingParameter('selector');
    // An override for a provider that no longer exists can still be removed.
    const selector = canonical(given, () => true);
    await execute({ kind: 'remove', selector, context: eventContextOf(request) }, request, reply);
    return reply.status(204).send();
  });
}

/** @throws Refusal 400 */
function canonical(given: string, isProvider: (name: string) => boolean): string {
  const selector = canonicalSelector(given, isProvider, 'selector');
  if (selector instanceof Refusal) throw selector;
  return selector;
}

/** Sorted by selector. @param state current, or of an `as_of` */
function* overrideRows({ bySelector }: Pick<PriceOverrides, 'bySelector'>): Generator<object> {
  for (const selector of [...bySelector.keys()].sort()) {
    const override = bySelector.get(selector);
    if (override !== undefined) yield overrideRow(override);
  }
}

function overrideRow({ selector, pricing, createdAt, updatedAt, revision }: PriceOverride): object {
  return {
    selector,
    ...scopeOfPrice(selector),
    pricing,
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
    revision: String(revision),
  };
}

function scopeOfPrice(canonicalText: string): object {
  const parsed = parseSelector(canonicalText);
  switch (parsed.kind) {
    case 'everything':
      return { scope_kind: 'global' };
    case 'provider':
      return { scope_kind: 'provider', provider_name: parsed.provider };
    case 'model':
      return { scope_kind: 'model', model: parsed.model };
    case 'exact':
      return { scope_kind: 'provider_model', provider_name: parsed.provider, model: parsed.model };
  }
}
