import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const MODELS = ['talker', 'nomic-embed-text', 'bge-reranker', 'ns/e5-large'];

describe('the models of the gateway', () => {
  const gateway = withGateway({ simulated: { models: MODELS } });
  const ids = async (query = '', headers: Record<string, string> = {}) => {
    const models = await json(await gateway.fetch(`/admin/models${query}`, { headers }));
    return models.map(({ selector }: { selector: string }) => selector);
  };

  it('are listed with their provider and access', async () => {
    const [first] = await json(await gateway.fetch('/admin/models'));
    expect(first).toMatchObject({
      model: { id: 'talker', object: 'model', created: expect.any(Number), owned_by: expect.any(String) },
      provider_type: 'llamacpp',
      provider_name: 'llamacpp',
      selector: 'llamacpp/talker',
      access: { selector: 'llamacpp/talker', default_enabled: true, effective_enabled: true },
    });
    expect(await ids()).toEqual(MODELS.map((id) => `llamacpp/${id}`));
  });

  it('have their category, and the price in force with its source', async () => {
    const row = async (selector: string, headers: Record<string, string> = {}) =>
      (await json(await gateway.fetch('/admin/models', { headers }))).find(
        (one: { selector: string }) => one.selector === selector,
      );
    expect(await row('llamacpp/nomic-embed-text')).toMatchObject({ category: 'embedding' });
    expect(await row('llamacpp/nomic-embed-text')).not.toHaveProperty('price');
    const set = (selector: string, pricing: object) =>
      gateway.fetch('/admin/model-pricing-overrides', { method: 'PUT', json: { selector, pricing } });
    expect((await set('llamacpp/nomic-embed-text', { input_per_mtok: 0.02 })).status).toBe(200);
    const tiers = [{ up_to_tokens: 1000, output_per_mtok: 3 }];
    expect((await set('llamacpp/', { output_per_mtok: 4, tiers })).status).toBe(200);
    expect((await row('llamacpp/nomic-embed-text')).price).toEqual({
      source: 'override:llamacpp/nomic-embed-text+override:llamacpp/',
      rates: { input_per_mtok: 0.02, output_per_mtok: 3 },
      has_tiers: true,
    });
    const made = await gateway.fetch('/admin/auth-keys', {
      json: { name: 'admin of a subtree', user_path: '/sub', dashboard_access: true },
    });
    const { value } = await json(made);
    const ofSubtree = await row('llamacpp/nomic-embed-text', { authorization: `Bearer ${value}` });
    expect(ofSubtree).toMatchObject({ category: 'embedding' });
    expect(ofSubtree).not.toHaveProperty('price');
  });

  it('are filtered by category', async () => {
    expect(await ids('?category=all')).toHaveLength(4);
    expect(await ids('?category=embedding')).toEqual(['llamacpp/nomic-embed-text', 'llamacpp/ns/e5-large']);
    expect(await ids('?category=reranking')).toEqual(['llamacpp/bge-reranker']);
    expect(await ids('?category=video')).toEqual([]);
  });

  it.each(['embeddings', 'toString', 'All'])('are refused for the category %s', async (category) => {
    expect((await errorOf(await gateway.fetch(`/admin/models?category=${category}`), 400)).param).toBe('category');
  });

  it('are counted by category', async () => {
    const categories = await json(await gateway.fetch('/admin/models/categories'));
    expect(categories[0]).toEqual({ category: 'all', display_name: 'All', count: 4 });
    expect(categories).toContainEqual({ category: 'embedding', display_name: 'Embeddings', count: 2 });
    expect(categories).toContainEqual({ category: 'text_generation', display_name: 'Text generation', count: 0 });
  });

  it('are listed for the administrator of a subtree with the access of that subtree', async () => {
    const policy = { user_path: '/team', allowed_models: ['llamacpp/talker'], description: '' };
    expect((await gateway.fetch('/admin/users', { method: 'PUT', json: policy })).status).toBe(200);
    const made = await gateway.fetch('/admin/auth-keys', {
      json: { name: 'admin of the team', user_path: '/team', dashboard_access: true },
    });
    const { value } = await json(made);
    const models = await json(await gateway.fetch('/admin/models', { headers: { authorization: `Bearer ${value}` } }));
    const usable = models.filter(({ access }: { access: { effective_enabled: boolean } }) => access.effective_enabled);
    expect(models).toHaveLength(4);
    expect(usable.map(({ selector }: { selector: string }) => selector)).toEqual(['llamacpp/talker']);
  });
});

describe('a gateway without a model', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await startTestGateway({ simulated: false, env: { VLLM_BASE_URL: 'http://127.0.0.1:9/v1' } });
  });
  afterAll(() => gateway.close());

  it('lists no model, and every category as empty', async () => {
    expect(await json(await gateway.fetch('/admin/models'))).toEqual([]);
    const categories = await json(await gateway.fetch('/admin/models/categories'));
    expect(categories.every(({ count }: { count: number }) => count === 0)).toBe(true);
  });
});
