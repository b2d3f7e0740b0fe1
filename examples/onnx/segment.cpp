// Find what a concept has learned, in C++: what `dgpnet export onnx --concept mug.concept --out FOLDER` is for.
// g++ -std=c++17 segment.cpp -I /usr/include/onnxruntime -lonnxruntime -o segment
// ./segment FOLDER/query.onnx photo.ppm found.pgm      (a binary PPM at the network's size, e.g. 384 × 384)
#include <onnxruntime_cxx_api.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

int main(int, char **argv) {
  std::ifstream photo(argv[2], std::ios::binary);
  std::string magic;
  int64_t width, height, most;
  photo >> magic >> width >> height >> most;
  photo.get();
  const int64_t area = width * height;
  std::vector<unsigned char> rgb(3 * area);
  photo.read(reinterpret_cast<char *>(rgb.data()), rgb.size());

  const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  std::vector<float> pixels(3 * area);
  for (int64_t i = 0; i < 3 * area; i++) pixels[i % 3 * area + i / 3] = (rgb[i] / 255.f - mean[i % 3]) / deviation[i % 3];

  Ort::Env environment;
  Ort::Session session(environment, argv[1], Ort::SessionOptions{});
  const std::array<int64_t, 4> shape{1, 3, height, width};
  auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  auto input = Ort::Value::CreateTensor<float>(memory, pixels.data(), pixels.size(), shape.data(), shape.size());
  const char *inputs[] = {"photographs"}, *outputs[] = {"log_odds"};
  auto found = session.Run(Ort::RunOptions{}, inputs, &input, 1, outputs, 1);
  const float *log_odds = found[0].GetTensorData<float>();  // (1, classes, height, width)
  const int64_t classes = found[0].GetTensorTypeAndShapeInfo().GetShape()[1];

  std::string labels(area, 0);
  std::vector<float> best(area, 0);
  for (int64_t i = 0; i < classes * area; i++)
    if (log_odds[i] > best[i % area]) best[i % area] = log_odds[i], labels[i % area] = char(i / area + 1);
  std::ofstream(argv[3], std::ios::binary) << "P5\n" << width << " " << height << "\n255\n" << labels;
}
