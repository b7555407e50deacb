// SPDX-License-Identifier: Apache-2.0
// The only file that calls oneDNN, releases 2.6 and 3.x.
#include "framework/kernels/cpu/onednn.h"

#include <dlfcn.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "framework/core/buffer.h"
#include "framework/core/error.h"

namespace tapeformer::kernels::cpu {
namespace {

using Memory = dnnl::memory;

// The OpenMP runtime that oneDNN brought with it, if any: looked up by name, since linking one of our own could bring in a second.
struct OpenMp {
  int (*threads)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  void (*set_threads)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
};

// While it lives, oneDNN uses the calling thread only. The number is the thread's own, so other users of OpenMP see no change.
class OneThread {
 public:
  // Whether that is possible: not where oneDNN has threads of another kind.
  static bool works() {
    const auto runtime = dnnl_version()->cpu_runtime;
    return runtime == DNNL_RUNTIME_SEQ || (runtime == DNNL_RUNTIME_OMP && openmp().threads && openmp().set_threads);
  }
  OneThread() : before_(openmp().threads && openmp().set_threads ? openmp().threads() : 0) {
    if (before_ > 1) openmp().set_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) openmp().set_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static const OpenMp& openmp() {
    static const OpenMp found;
    return found;
  }
  int before_;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

Memory::desc matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride = 1) {
  return Memory::desc({rows, columns}, Memory::data_type::f32, Memory::dims{row_stride, column_stride});
}

dnnl::matmul::primitive_desc describe(const Memory::desc& x, const Memory::desc& w, const Memory::desc& bias, const Memory::desc& y) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), x, w, bias, y, attributes};
#else
  return {dnnl::matmul::desc(x, w, bias, y), attributes, engine()};
#endif
}

Memory bound(const Memory::desc& d, const float* data) { return Memory(d, engine(), const_cast<float*>(data)); }

// The one product of q, k and v of a wide layer, and the gradient of its input. oneDNN against our register blocks, GFLOP/s of processor
// time of one thread, packing of w included, best of 25; Intel Xeon, AVX-512, 2 MiB of second-level cache, oneDNN 2.6.3, 2026-11-29, 960
// rows, machine not idle:
//   K x N          ours   oneDNN, blocks of 192
//   768 x 2304     125    138
//   2304 x 768     118    137
//   1024 x 3072    116    127
//   3072 x 1024    118    128
// Other products of 512 to 4096 gained 0 to 10 % too, but are made inside the fused half-layers or, in heads, for so few rows that a block
// filled with zeros costs more. Blocks of 48 were slower than ours, blocks of 480 no faster. On AVX2 ours are faster nearly everywhere.
constexpr OnednnShape faster[] = {{768, 2304, 192}, {2304, 768, 192}, {1024, 3072, 192}, {3072, 1024, 192}};

constexpr size_t line = 16;  // floats of a cache line
size_t whole_lines(size_t floats) { return (floats + line - 1) / line * line; }

}  // namespace

std::span<const OnednnShape> onednn_shapes() { return faster; }

int64_t onednn_rows(int64_t K, int64_t N) {
  // Asked of oneDNN: Highway, asked for its targets, also chooses among them anew.
  static const bool measured = [] {
    const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512 && OneThread::works();
  }();
  if (!measured) return 0;
  for (const OnednnShape& s : faster)
    if (s.K == K && s.N == N) return s.rows;
  return 0;
}

struct OnednnProduct::State {
  int64_t rows, K, N;
  const float* bias;
  Storage w;
  Memory::desc x_desc, bias_desc, y_desc;
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

OnednnProduct::OnednnProduct(View<const float> w, bool transposed, const float* bias, int64_t rows) : state_(std::make_unique<State>()) {
  const OneThread guard;
  State& s = *state_;
  s.rows = rows;
  s.K = transposed ? w.columns : w.rows;
  s.N = transposed ? w.rows : w.columns;
  s.bias = bias;
  s.x_desc = matrix(rows, s.K, s.K);
  const Memory::desc plain = transposed ? matrix(s.K, s.N, 1, w.stride) : matrix(s.K, s.N, w.stride);
  const Memory::desc any({s.K, s.N}, Memory::data_type::f32, Memory::format_tag::any);
  if (bias) s.bias_desc = matrix(1, s.N, s.N);
  s.y_desc = matrix(rows, s.N, s.N);
  try {
    s.description = describe(s.x_desc, any, s.bias_desc, s.y_desc);  // made before: from oneDNN's cache
    s.primitive = dnnl::matmul(s.description);
    s.w = allocate(s.description.weights_desc().get_size());
    Memory from = bound(plain, w.data), to = bound(s.description.weights_desc(), reinterpret_cast<const float*>(s.w.get()));
    dnnl::stream stream(engine());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
  } catch (const dnnl::error& e) {
    fail(ExitCode::internal, "oneDNN {}.{} has no product of [{}, {}] and [{}, {}]: {}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, rows, s.K,
         s.K, s.N, e.message);
  }
}

OnednnProduct::~OnednnProduct() = default;

size_t OnednnProduct::scratch() const {
  const State& s = *state_;
  return whole_lines(static_cast<size_t>(s.rows * s.K)) + whole_lines(static_cast<size_t>(s.rows * s.N)) +
         whole_lines(s.description.scratchpad_desc().get_size() / sizeof(float) + 1);
}

void OnednnProduct::multiply(View<const float> x, View<float> y, Write write, float* scratch) const {
  const State& s = *state_;
  const OneThread guard;
  float* const x_block = scratch;
  float* const y_block = x_block + whole_lines(static_cast<size_t>(s.rows * s.K));
  float* const memory = y_block + whole_lines(static_cast<size_t>(s.rows * s.N));
  const float* left = x.data;
  if (x.rows < s.rows || x.stride != s.K) {
    for (int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), s.K, x_block + r * s.K);
    std::fill(x_block + x.rows * s.K, x_block + s.rows * s.K, 0.f);
    left = x_block;
  }
  const bool direct = x.rows == s.rows && y.stride == s.N && write == Write::overwrite;
  float* const out = direct ? y.data : y_block;
  dnnl::stream stream(engine());
  std::unordered_map<int, Memory> arguments = {
      {DNNL_ARG_SRC, bound(s.x_desc, left)},
      {DNNL_ARG_WEIGHTS, bound(s.description.weights_desc(), reinterpret_cast<const float*>(s.w.get()))},
      {DNNL_ARG_DST, bound(s.y_desc, out)},
      {DNNL_ARG_SCRATCHPAD, bound(s.description.scratchpad_desc(), memory)}};
  if (s.bias) arguments.emplace(DNNL_ARG_BIAS, bound(s.bias_desc, s.bias));
  s.primitive.execute(stream, arguments);
  stream.wait();
  if (direct) return;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* from = out + r * s.N;
    float* to = y.row(r);
    if (write == Write::overwrite) std::copy_n(from, s.N, to);
    else
      for (int64_t n = 0; n < s.N; ++n) to[n] += from[n];
  }
}

}  // namespace tapeformer::kernels::cpu
