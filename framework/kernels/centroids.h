// SPDX-License-Identifier: Apache-2.0
// What k-means does with the points of heads (Roy, Saffar, Vaswani, Grangier 2020, 2003.05997): the class of each point, the sums of
// classes, and how far points are from their centroid.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"

namespace tapeformer::kernels {

// best[g][r] = the m with the largest scores[g * clusters + m][r], the first of equals; scores [G * clusters, T].
template <class T>
struct LargestScores {
  static void reference(const Execution&, View<const T> scores, int clusters, View<int32_t> best);
  static void cpu(const Execution&, View<const T> scores, int clusters, View<int32_t> best);
};

// Groups of points of D columns: group g has the columns g D ... of x [T, at least G D]. Its point in row r is of class classes[g][r],
// whose centroid is the row g % heads * clusters + class of all.
template <class T>
struct ClassedPoints {
  View<const T> x;
  View<const int32_t> classes;  // [G, T]
  int heads = 1, clusters = 1, head_dim = 0;

  int64_t groups() const { return classes.rows; }
  int64_t centroid(int64_t group, int64_t row) const { return group % heads * clusters + classes.row(group)[row]; }
};

// members[c] += how many points centroid c has, sums[c][D] += their sum: in the order of rows and, in a row, of groups.
template <class T>
struct CentroidSums {
  static void reference(const Execution&, const ClassedPoints<T>&, double* members, double* sums);
  static void cpu(const Execution&, const ClassedPoints<T>&, double* members, double* sums);
};

// loss[r] = factor times the sum over the groups of |x - centroid|^2.
template <class T>
struct CentroidLossForward {
  static void reference(const Execution&, const ClassedPoints<T>&, View<const T> centroids, double factor, T* loss);
  static void cpu(const Execution&, const ClassedPoints<T>&, View<const T> centroids, double factor, T* loss);
};

// dx += factor (x - centroid) in the columns of points.
template <class T>
struct CentroidLossBackward {
  static void reference(const Execution&, const ClassedPoints<T>&, View<const T> centroids, double factor, View<T> dx);
  static void cpu(const Execution&, const ClassedPoints<T>&, View<const T> centroids, double factor, View<T> dx);
};

}  // namespace tapeformer::kernels
