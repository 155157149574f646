import { expect, test } from 'vitest';
import { categoryOfId, categoryOfMode, modelCategoryOf } from '../../src/providers/registry.ts';

test.each([
  ['text-embedding-3-small', 'embedding'],
  ['nomic-embed-text', 'embedding'],
  ['BAAI/bge-m3', 'embedding'],
  ['/models/bge-small-en-v1.5.gguf', 'embedding'],
  ['intfloat/multilingual-e5-large', 'embedding'],
  ['Alibaba-NLP/gte-Qwen2-7B', 'embedding'],
  ['all-MiniLM-L6-v2', 'embedding'],
  ['e5:latest', 'embedding'],
  ['bge@q4 k', 'embedding'],
  ['bge-reranker-v2-m3', 'reranking'],
  ['qwen3-rerank-embedding', 'reranking'],
  ['gpt-5', undefined],
  ['embed/llama-3', undefined],
  ['mbge5-large', undefined],
  ['gtexyz', undefined],
  ['', undefined],
])('the id %j is classified as %s', (id, category) => {
  expect(categoryOfId(id)).toBe(category);
});

test.each([
  ['chat', 'text_generation'],
  ['completion', 'text_generation'],
  ['responses', 'text_generation'],
  ['embedding', 'embedding'],
  ['rerank', 'reranking'],
  ['image_generation', 'image'],
  ['image_edit', 'image'],
  ['audio_speech', 'audio'],
  ['audio_transcription', 'audio'],
  ['video_generation', 'video'],
  ['moderation', 'utility'],
  ['ocr', 'utility'],
  ['search', 'utility'],
  ['juggling', undefined],
])('the mode %s is %s', (mode, category) => {
  expect(categoryOfMode(mode)).toBe(category);
});

test('declared modes win over the id, and unknown ones leave it to the id', () => {
  expect(modelCategoryOf('my-embedder', { modes: ['chat'] })).toBe('text_generation');
  expect(modelCategoryOf('my-embedder', { modes: ['juggling'] })).toBe('embedding');
  expect(modelCategoryOf('my-embedder')).toBe('embedding');
});
