// Paint one, find the rest, in a browser: what `dgpnet export onnx --out FOLDER` is for.
// A page names onnxruntime-web in an import map, then: const found = await segment("FOLDER", painted, mask, photo)
import * as ort from "onnxruntime-web";

async function bytes(url, side, quality) {
  const blob = await (await fetch(url)).blob();
  const how = { resizeWidth: side, resizeHeight: side, resizeQuality: quality, colorSpaceConversion: "none" };
  const context = new OffscreenCanvas(side, side).getContext("2d");
  context.drawImage(await createImageBitmap(blob, how), 0, 0);
  return context.getImageData(0, 0, side, side).data; // RGBA
}

// URLs of a folder, a painted photograph, its mask (grey: 0, 1, 2, …) and a photograph -> side × side labels.
export async function segment(folder, painted, mask, photo) {
  const about = await (await fetch(`${folder}/about.json`)).json();
  const side = about.size, area = side * side;
  const pixels = async (url) => {
    const rgba = await bytes(url, side, "medium"), { mean, std } = about;
    const values = Float32Array.from({ length: 3 * area }, (_, i) => {
      const c = Math.floor(i / area);
      return (rgba[4 * (i % area) + c] / 255 - mean[c]) / std[c];
    });
    return new ort.Tensor("float32", values, [1, 3, side, side]);
  };
  const run = async (name, inputs) => (await ort.InferenceSession.create(`${folder}/${name}`)).run(inputs);
  const shown = (await bytes(mask, side, "pixelated")).filter((_, i) => i % 4 === 0);
  const classes = shown.reduce((a, b) => Math.max(a, b), 0);
  const masks = Float32Array.from({ length: classes * area }, (_, i) => shown[i % area] === Math.floor(i / area) + 1);
  const given = new ort.Tensor("float32", masks, [1, classes, side, side]);
  const state = await run("support.onnx", { photographs: await pixels(painted), masks: given });
  const { log_odds } = await run("query.onnx", { photographs: await pixels(photo), ...state });
  return Uint8Array.from({ length: area }, (_, i) => {
    let label = 0, best = 0;
    for (let c = 0; c < classes; c++) {
      if (log_odds.data[c * area + i] > best) [best, label] = [log_odds.data[c * area + i], c + 1];
    }
    return label;
  });
}
