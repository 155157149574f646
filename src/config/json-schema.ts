import { z } from 'zod';
import { fileSchema, type ProviderTypes } from './schema.ts';

/** The JSON Schema of chancery.yaml, for editors: `# yaml-language-server: $schema=…`. */
export function configJsonSchema(types: ProviderTypes): object {
  return { ...z.toJSONSchema(fileSchema(types), { io: 'input', unrepresentable: 'any' }), title: 'chancery.yaml' };
}
