import type { Answer } from '../../api/client.ts';

/** A managed key, as the API lists it. */
export type KeyRow = Answer<'/admin/auth-keys'>[number];
