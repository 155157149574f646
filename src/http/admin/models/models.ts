/** `GET /admin/models`: every model, with the user paths that may use it, and the number of models per category. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ModelCaller } from '../../../commands/access/model-access.ts';
import type { ShownPrice } from '../../../commands/pricing/pricing.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { UserPath } from '../../../events/event.ts';
import { type QueryParameter, queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { single } from '../../request-head.ts';
import { callerOf } from '../../server.ts';
import { pathsVisibleTo, scopeOf } from '../admin-scope.ts';
import { listPageParameters, pageOf } from '../parameters.ts';

/** In display order, each with its display name. */
const categories = {
  all: 'All',
  text_generation: 'Text generation',
  embedding: 'Embeddings',
  reranking: 'Reranking',
  image: 'Image',
  audio: 'Audio',
  video: 'Video',
  utility: 'Utility',
} as const;

type Category = keyof typeof categories;

interface AdminModel {
  /** The selector `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  readonly providerType: string;
  /** The provider's own id. */
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
  /** Undefined when the category is unknown. */
  readonly category?: Exclude<Category, 'all'>;
}

/** A policy on the side of the models. */
interface ModelPolicy {
  readonly source: string;
  readonly userPaths: readonly string[];
  readonly enabled: boolean;
}

export interface AdminModelsOptions {
  /** Empty until a provider has returned its model list. */
  list(): readonly AdminModel[];
  /** Whether a model without a policy may be used. */
  readonly enabledByDefault: boolean;
  allows(asker: ModelCaller, provider: string, model: string): boolean;
  /** The price in force; undefined when none is known. */
  price(provider: string, model: string): ShownPrice | undefined;
  /** The policy that decides about the model; undefined when none does. */
  policy(provider: string, model: string): ModelPolicy | undefined;
}

const categoryParameter: QueryParameter<Category> = {
  description: 'Category of the models',
  schema: { type: 'string', enum: Object.keys(categories), default: 'all' },
  read: ({ category }) => categoryOf(single(category)),
};

const userPaths = z.array(z.string());

const adminModel = z.object({
  model: z.object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  }),
  provider_type: z.string(),
  provider_name: z.string(),
  selector: z.string(),
  category: z.string().optional().describe('Absent when it is unknown'),
  price: z
    .object({
      source: z
        .string()
        .describe('`override:<selector>`, `config` or `snapshot:<date>`; several, the strongest first, joined by `+`'),
      rates: z.record(z.string(), z.number()).describe('In US dollars, of the smallest requests'),
      has_tiers: z.boolean().describe('Larger requests have other rates'),
    })
    .optional()
    .describe('The price in force, for global administrators. Absent when none is known'),
  access: z.object({
    selector: z.string(),
    default_enabled: z.boolean(),
    effective_enabled: z.boolean().describe('The caller may use the model'),
    user_paths: userPaths.optional(),
    override: z
      .object({ selector: z.string(), user_paths: userPaths, enabled: z.boolean() })
      .optional()
      .describe('The policy that decides'),
  }),
});

const listModels = scopedAdmin('listAdminModels', 'List every model with the user paths that may use it', {
  exposeHeadRoute: false,
  querystring: queryOfParameters({ category: categoryParameter, ...listPageParameters }),
  response: { 200: jsonAnswer('Empty until a provider has returned its model list', z.array(adminModel)) },
});

const listCategories = scopedAdmin('listModelCategories', 'Count the models of each category', {
  exposeHeadRoute: false,
  response: {
    200: jsonAnswer(
      'Every category',
      z.array(z.object({ category: z.string(), display_name: z.string(), count: z.int() })),
    ),
  },
});

export function registerAdminModels(admin: Routes, options: AdminModelsOptions): void {
  admin.get('/models', listModels, (request, reply) => {
    const { category, ...listPage } = request.query;
    const scope = scopeOf(request);
    const asker = askerOf(request);
    const wanted = options.list().filter((model) => category === 'all' || model.category === category);
    const page = pageOf(wanted, ({ id }) => id, listPage, reply);
    return page.map((model) => toWire(model, asker, scope, options));
  });

  admin.get('/models/categories', listCategories, () => {
    const counts = new Map<string, number>();
    const all = options.list();
    for (const { category } of all) {
      if (category !== undefined) counts.set(category, (counts.get(category) ?? 0) + 1);
    }
    counts.set('all', all.length);
    return Object.entries(categories).map(([category, display_name]) => ({
      category,
      display_name,
      count: counts.get(category) ?? 0,
    }));
  });
}

/** @throws Refusal 400 */
function categoryOf(category: string | undefined): Category {
  if (category === undefined) return 'all';
  if (isCategory(category)) return category;
  const known = Object.keys(categories).join(', ');
  throw refusals.invalidRequest(`Unknown category. The categories are ${known}.`, 'category');
}

function isCategory(name: string): name is Category {
  return Object.hasOwn(categories, name);
}

/** An administrator of a subtree sees the models usable at its root; other callers, those that their key may use. */
function askerOf(request: FastifyRequest): ModelCaller {
  const { key, userPath } = callerOf(request);
  return { key, userPath: scopeOf(request) ?? userPath };
}

function toWire(
  { id, provider, providerType, model, created, ownedBy, metadata, category }: AdminModel,
  asker: ModelCaller,
  scope: UserPath | undefined,
  { allows, enabledByDefault, policy, price }: AdminModelsOptions,
) {
  const deciding = policy(provider, model);
  const all = deciding?.userPaths ?? [];
  const userPaths = pathsVisibleTo(scope, all);
  // Prices are the whole gateway's, like the overrides.
  const shown = scope === undefined ? price(provider, model) : undefined;
  return {
    model: {
      id: model,
      object: 'model',
      created,
      owned_by: ownedBy,
      ...(metadata === undefined ? {} : { metadata }),
    },
    provider_type: providerType,
    provider_name: provider,
    selector: id,
    ...(category === undefined ? {} : { category }),
    ...(shown === undefined ? {} : { price: { source: shown.source, rates: shown.rates, has_tiers: shown.hasTiers } }),
    access: {
      selector: id,
      default_enabled: enabledByDefault,
      effective_enabled: allows(asker, provider, model),
      ...(all.length === 0 ? {} : { user_paths: userPaths }),
      ...(deciding === undefined
        ? {}
        : { override: { selector: deciding.source, user_paths: userPaths, enabled: deciding.enabled } }),
    },
  };
}
