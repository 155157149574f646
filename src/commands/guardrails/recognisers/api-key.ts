/** API keys with a published format: the prefix and the length identify them. */
import type { Recogniser } from './recogniser.ts';

/** The formats that providers document. Open lengths end at 256 units. */
const formats: readonly string[] = [
  // OpenAI, Anthropic, OpenRouter and others
  'sk-[A-Za-z0-9_-]{20,253}',
  // this gateway
  'sk_chy_[A-Za-z0-9_-]{16,249}',
  // Stripe
  '(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,247}',
  // GitHub
  'gh[opsur]_[A-Za-z0-9]{36,252}',
  'github_pat_[A-Za-z0-9_]{22,245}',
  // GitLab
  'glpat-[A-Za-z0-9_-]{20,250}',
  // AWS
  'A(?:KIA|SIA)[A-Z2-7]{16}',
  // Google
  'AIza[A-Za-z0-9_-]{35}',
  // Slack
  'xox[abeprs]-[A-Za-z0-9-]{10,251}',
  // npm, Hugging Face, Groq, xAI, Replicate, Perplexity
  'npm_[A-Za-z0-9]{36}',
  'hf_[A-Za-z0-9]{30,64}',
  'gsk_[A-Za-z0-9]{40,64}',
  'xai-[A-Za-z0-9]{40,128}',
  'r8_[A-Za-z0-9]{37}',
  'pplx-[A-Za-z0-9]{40,64}',
  // SendGrid
  'SG\\.[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}',
  // DigitalOcean
  'do[opr]_v1_[a-f0-9]{64}',
  // Shopify
  'shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}',
];

export const apiKey: Recogniser = {
  entity: 'API_KEY',
  label: 'API keys',
  byDefault: true,
  longest: 256,
  candidates: new RegExp(`(?<![A-Za-z0-9_-])(?:${formats.join('|')})`, 'g'),
  hint: /[_-]|AKIA|ASIA|AIza|SG\./,
  validLength(candidate) {
    // Words joined by hyphens are no key.
    return /\d/.test(candidate) && /[A-Za-z]/.test(candidate) ? candidate.length : 0;
  },
};
