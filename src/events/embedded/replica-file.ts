/** In the folder of a replica: which log on which engine it has, and up to where. */
export const replicaFile = 'replica.json';
