/**
 * SHA-256 of a downloaded file. `crypto.subtle` exists only in secure contexts; a page served over
 * plain http in a home network is none, and its files are checked all the same, by FIPS 180-4 below.
 */

const constants = fractionalBits(64, Math.cbrt);
const initial = fractionalBits(8, Math.sqrt);

/** The first 32 bits of the fractional parts of the roots of the first `count` primes. */
function fractionalBits(count: number, root: (prime: number) => number): Uint32Array {
  const words = new Uint32Array(count);
  for (let candidate = 2, found = 0; found < count; candidate++) {
    let prime = true;
    for (let divisor = 2; divisor * divisor <= candidate; divisor++) prime &&= candidate % divisor !== 0;
    if (prime) words[found++] = (root(candidate) % 1) * 2 ** 32;
  }
  return words;
}

const rotate = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** SHA-256 in lower-case hex, without the platform's help. */
export function sha256Plain(data: Uint8Array): string {
  const padded = new Uint8Array(((data.length + 8) >>> 6) * 64 + 64);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(padded.length - 4, (data.length << 3) >>> 0);

  const hash = Uint32Array.from(initial);
  const schedule = new Uint32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let t = 0; t < 64; t++) {
      if (t < 16) {
        schedule[t] = view.getUint32(block + t * 4);
        continue;
      }
      const near = schedule[t - 2]!;
      const far = schedule[t - 15]!;
      const small0 = rotate(far, 7) ^ rotate(far, 18) ^ (far >>> 3);
      const small1 = rotate(near, 17) ^ rotate(near, 19) ^ (near >>> 10);
      schedule[t] = schedule[t - 16]! + small0 + schedule[t - 7]! + small1;
    }
    let [a, b, c, d, e, f, g, h] = hash as unknown as [number, number, number, number, number, number, number, number];
    for (let t = 0; t < 64; t++) {
      const large1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const first = (h + large1 + ((e & f) ^ (~e & g)) + constants[t]! + schedule[t]!) | 0;
      const large0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const second = (large0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (hash[index] = hash[index]! + word));
  }
  return [...hash].map((word) => word.toString(16).padStart(8, "0")).join("");
}

/** SHA-256 in lower-case hex, by the platform where it offers it. */
export async function sha256(data: Uint8Array<ArrayBuffer>, subtle = globalThis.crypto?.subtle): Promise<string> {
  if (!subtle) return sha256Plain(data);
  const digest = new Uint8Array(await subtle.digest("SHA-256", data));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
