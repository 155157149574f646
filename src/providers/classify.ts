/** The category of a model. The dashboard groups models by it; it has no other effect. */
import type { ModelMetadata } from './provider.ts';

export type ModelCategory = 'text_generation' | 'embedding' | 'reranking' | 'image' | 'audio' | 'video' | 'utility';

const embeddingFamilies = new Set(['bge', 'e5', 'gte', 'minilm']);

/** Declared modes decide; without them, the id. Undefined: unclassified. */
export function modelCategoryOf(id: string, metadata?: ModelMetadata): ModelCategory | undefined {
  for (const mode of metadata?.modes ?? []) {
    const category = categoryOfMode(mode);
    if (category !== undefined) return category;
  }
  return categoryOfId(id);
}

/** Only the last path segment counts, since the namespace of a model does not describe it. */
export function categoryOfId(id: string): ModelCategory | undefined {
  const name = id.slice(id.lastIndexOf('/') + 1).toLowerCase();
  if (name.includes('rerank')) return 'reranking';
  if (name.includes('embed')) return 'embedding';
  return name.split(/[-_.:@ ]/).some((token) => embeddingFamilies.has(token)) ? 'embedding' : undefined;
}

export function categoryOfMode(mode: string): ModelCategory | undefined {
  switch (mode) {
    case 'chat':
    case 'completion':
    case 'responses':
      return 'text_generation';
    case 'embedding':
      return 'embedding';
    case 'rerank':
      return 'reranking';
    case 'moderation':
    case 'ocr':
    case 'search':
      return 'utility';
    case 'video_generation':
      return 'video';
    default:
      if (mode.startsWith('image_')) return 'image';
      return mode.startsWith('audio_') ? 'audio' : undefined;
  }
}
