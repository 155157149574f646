import { describe, expect, it } from 'vitest';
import { withProvider } from './started-provider.ts';

const { json, post } = withProvider();
const norm = (vector: number[]) => Math.hypot(...vector);
const dot = (left: number[], right: number[]) => left.reduce((sum, value, i) => sum + value * (right[i] ?? 0), 0);

describe('embeddings', () => {
  it('are unit vectors, the same for the same text', async () => {
    const answer = await json('/v1/embeddings', {
      model: 'simulated-embed',
      input: ['hello world', 'hello world', 'a very different text'],
    });
    const [first, second, third] = answer.data.map((entry: { embedding: number[] }) => entry.embedding);
    expect(answer.object).toBe('list');
    expect(norm(first)).toBeCloseTo(1, 10);
    expect(first).toEqual(second);
    expect(dot(first, third)).toBeLessThan(0.9);
    expect(answer.usage).toEqual({ prompt_tokens: 8, total_tokens: 8 });
  });

  it('are near each other when the texts share words', async () => {
    const { data } = await json('/v1/embeddings', {
      input: ['the cat sat on the mat', 'the cat lay on the mat', 'quarterly revenue grew'],
    });
    const [cat, alike, other] = data.map((entry: { embedding: number[] }) => entry.embedding);
    expect(dot(cat, alike)).toBeGreaterThan(dot(cat, other) + 0.3);
  });

  it('have the requested dimensions, and are base64 only on request', async () => {
    const plain = (await json('/v1/embeddings', { input: 'hi', dimensions: 256 })).data[0].embedding;
    expect(plain).toHaveLength(256);
    const packed = (await json('/v1/embeddings', { input: 'hi', dimensions: 256, encoding_format: 'base64' })).data[0]
      .embedding;
    const bytes = Buffer.from(packed, 'base64');
    const unpacked = Array.from({ length: 256 }, (_, i) => bytes.readFloatLE(i * 4));
    expect(Math.max(...unpacked.map((value, i) => Math.abs(value - plain[i])))).toBeLessThan(1e-6);
  });

  it('take lists of tokens', async () => {
    expect((await json('/v1/embeddings', { input: [1, 2, 3] })).data).toHaveLength(1);
    expect((await json('/v1/embeddings', { input: [[1, 2], [3]] })).usage.prompt_tokens).toBe(3);
  });

  it.each([{}, { input: [] }, { input: 7 }, { input: ['a', {}] }, { input: 'a', dimensions: 0 }])(
    'refuse %j',
    async (body) => {
      expect((await post('/v1/embeddings', body)).status).toBe(400);
    },
  );
});

describe('rerank', () => {
  it.each(['/rerank', '/v1/rerank'])('puts the best document first at %s', async (path) => {
    const documents = ['bread and butter', 'the capital of France is Paris', 'capital gains'];
    const { results } = await json(path, {
      query: 'what is the capital of France',
      documents,
      top_n: 2,
      return_documents: true,
    });
    expect(results).toHaveLength(2);
    expect(results[0]).toMatchObject({ index: 1, document: { text: documents[1] } });
    expect(results[0].relevance_score).toBeGreaterThan(results[1].relevance_score);
  });

  it('refuses a request without a query or documents', async () => {
    expect((await post('/rerank', { documents: ['a'] })).status).toBe(400);
    expect((await post('/rerank', { query: 'a', documents: [] })).status).toBe(400);
  });
});
