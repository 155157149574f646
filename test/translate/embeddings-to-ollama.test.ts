import { describe, expect, it } from 'vitest';
import { embeddingsFromEmbed, embedRequestFromOpenAi } from '../../src/providers/translate/embeddings-to-ollama.ts';

describe('an embeddings request', () => {
  it('reaches Ollama without the members about the answer, and with truncate: false', () => {
    const request = {
      model: 'ollama/e',
      input: ['a', 'b'],
      dimensions: 8,
      encoding_format: 'base64',
      user: 'u',
      keep_alive: '1m',
    };
    expect(embedRequestFromOpenAi(request, 'e')).toEqual({
      ok: true,
      body: { model: 'e', input: ['a', 'b'], truncate: false, dimensions: 8, keep_alive: '1m' },
    });
    expect(embedRequestFromOpenAi({ input: 'a', truncate: true }, 'e')).toMatchObject({ body: { truncate: true } });
  });

  it.each([
    [{ input: [1, 2] }, 'input'],
    [{ input: [[1], [2]] }, 'input'],
    [{ input: 'a', encoding_format: 'int8' }, 'encoding_format'],
  ])('%j is refused', (request, param) => {
    expect(embedRequestFromOpenAi(request, 'e')).toMatchObject({ ok: false, refusal: { status: 400, param } });
  });
});

describe('the embeddings in an answer', () => {
  const answer = {
    model: 'e',
    embeddings: [
      [0.5, -1],
      [2, 0],
    ],
    prompt_eval_count: 6,
  };

  it('are numbered, with their tokens counted', () => {
    expect(embeddingsFromEmbed(answer, { model: 'ollama/e', encoding: 'float' })).toEqual({
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [0.5, -1] },
        { object: 'embedding', index: 1, embedding: [2, 0] },
      ],
      model: 'ollama/e',
      usage: { prompt_tokens: 6, total_tokens: 6 },
    });
  });

  it('are encoded in base64 on request', () => {
    const { data } = embeddingsFromEmbed(answer, { model: 'e', encoding: 'base64' }) as {
      data: { embedding: string }[];
    };
    const bytes = Buffer.from(data[0]?.embedding ?? '', 'base64');
    expect([bytes.length, bytes.readFloatLE(0), bytes.readFloatLE(4)]).toEqual([8, 0.5, -1]);
  });

  it.each([[{}], [null], [{ embeddings: 'x' }], [{ embeddings: [['x']] }]])('are not in %j', (odd) => {
    expect(embeddingsFromEmbed(odd, { model: 'e', encoding: 'float' })).toBeUndefined();
  });
});
