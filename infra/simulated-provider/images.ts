/** `/v1/images`: pictures of one transparent pixel. */
import type { Rendering } from './chat.ts';
import { missing } from './files.ts';
import type { FormFile } from './form.ts';
import { type JsonObject, textIn } from './json.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { countTokens } from './tokens.ts';
import { hashOf, noise } from './words.ts';

/** One transparent pixel. Bytes behind the end of a PNG have no meaning; they make pictures differ. */
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);
const IMAGE_TOKENS = 272;
const MOST = 10;

/** @param pictures those to be edited; undefined in requests for new ones */
export function images(body: JsonObject, { now }: Rendering, pictures?: readonly FormFile[]): Reply {
  const prompt = textIn(body.prompt);
  if (prompt === undefined || prompt === '') throw missing('prompt');
  const given = pictures?.filter(({ field }) => field === 'image') ?? [];
  if (pictures !== undefined && given.length === 0) throw missing('image');
  const n = Number(body.n ?? 1);
  if (!Number.isInteger(n) || n < 1 || n > MOST) throw new Refused(400, `n must be from 1 to ${MOST}`, { param: 'n' });
  const seed = given.reduce((hash, { bytes }) => hashOf(bytes.toString('latin1'), hash), hashOf(prompt));
  const data = Array.from({ length: n }, (_, i) => {
    if (body.response_format === 'url') return { url: `https://images.example.com/${(seed + i) >>> 0}.png` };
    return { b64_json: Buffer.concat([PIXEL, noise(seed + i, 32)]).toString('base64') };
  });
  const text = countTokens(prompt);
  const seen = given.length * IMAGE_TOKENS;
  const usage = {
    input_tokens: text + seen,
    input_tokens_details: { text_tokens: text, image_tokens: seen },
    output_tokens: n * IMAGE_TOKENS,
    total_tokens: text + seen + n * IMAGE_TOKENS,
  };
  const { background = 'auto', output_format = 'png', quality = 'auto', size = '1024x1024' } = body;
  return { status: 200, json: { created: now(), data, background, output_format, quality, size, usage } };
}
