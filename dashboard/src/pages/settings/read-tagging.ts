/** The headers that become labels, with their revision. */
import { type Answer, request } from '../../api/client.ts';
import type { Rule } from './tagging-rules.ts';

export interface TaggingSettings {
  readonly revision: string;
  readonly rules: readonly Rule[];
}

/** @throws ApiError */
export async function readTagging(signal?: AbortSignal): Promise<TaggingSettings> {
  const response = await request('/admin/tagging/settings', { ...(signal && { signal }) });
  const { headers } = (await response.json()) as Answer<'/admin/tagging/settings'>;
  return { revision: (response.headers.get('etag') ?? '"none"').replaceAll('"', ''), rules: headers };
}
