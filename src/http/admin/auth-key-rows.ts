/** Managed keys as rows of the admin API. */
import { z } from 'zod';
import { KEY_PREFIX, whyNotAccepted } from '../../commands/access/key-directory.ts';
import type { UserPath } from '../../events/event.ts';
import type { KeyRecord } from '../../projections/key-record.ts';
import { timeText } from '../dates.ts';

/** Effective access of a key, computed by the authorizer that model requests use. */
export interface EffectiveAccess {
  restricts(path: UserPath | undefined): boolean;
  of(path: UserPath | undefined, keyList: readonly string[]): readonly string[];
}

const members = {
  id: z.string(),
  name: z.string(),
  description: z.string().optional(),
  user_path: z.string().optional(),
  labels: z.array(z.string()),
  allowed_models: z.array(z.string()),
  dashboard_access: z.boolean(),
  user_path_header: z
    .literal(false)
    .optional()
    .describe('No request header sets the user path. Absent: one may, unless the key is bound to a path'),
  redacted_value: z.string(),
  previous_valid_until: z.iso
    .datetime()
    .optional()
    .describe('Until then the secret before the last rotation is accepted too. Absent: only the newest secret is'),
  enabled: z.boolean(),
  expires_at: z.iso.datetime().optional(),
  deactivated_at: z.iso.datetime().optional(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  active: z.boolean().describe('The key is accepted now'),
  revision: z.string(),
};

export const keyRowSchema = z.object({
  ...members,
  restricted: z.boolean(),
  effective_models: z.array(z.string()).describe('The listed models that may be used with the key'),
});
export const newKeySchema = keyRowSchema.extend({ value: z.string().describe('The secret; shown only once') });

/** @param now milliseconds since the epoch */
export function keyRow(key: KeyRecord, effective: EffectiveAccess, now: number) {
  const { description, userPath, expiresAt, deactivatedAt, previousSecret } = key;
  return {
    id: key.id,
    name: key.name,
    ...(description === undefined ? {} : { description }),
    ...(userPath === undefined ? {} : { user_path: userPath }),
    labels: key.labels,
    allowed_models: key.allowedModels,
    dashboard_access: key.dashboardAccess,
    ...(key.userPathHeader ? {} : { user_path_header: false }),
    redacted_value: `${KEY_PREFIX}...${key.lastCharacters}`,
    ...(previousSecret !== undefined && now < previousSecret.validUntil
      ? { previous_valid_until: timeText(previousSecret.validUntil) }
      : {}),
    enabled: deactivatedAt === undefined,
    ...(expiresAt === undefined ? {} : { expires_at: timeText(expiresAt) }),
    ...(deactivatedAt === undefined ? {} : { deactivated_at: timeText(deactivatedAt) }),
    created_at: timeText(key.createdAt),
    updated_at: timeText(key.updatedAt),
    active: whyNotAccepted(key, now) === undefined,
    revision: String(key.revision),
    restricted: key.allowedModels.length > 0 || effective.restricts(key.userPath),
    effective_models: effective.of(key.userPath, key.allowedModels),
  };
}
